"""Why pods do not run, in the words of whoever knows."""

from typing import Any

import pytest

from rtj_api.reasons import ConditionType, Phase, Reason
from rtj_operator.policy.decide import decide
from rtj_operator.policy.observation import ContainerObservation, Refusal
from tests.unit.policy import build


def waiting(reason: str, message: str = "") -> tuple[ContainerObservation, ...]:
    return (ContainerObservation(name="trainer", state="waiting", reason=reason, message=message),)


def starting(*pods: Any, **fields: Any) -> Any:
    """A job just started, with these of its pods."""
    _, seen = build.after(build.observation())
    given: dict[str, Any] = {"pods": (*pods, build.coordinator())} | fields
    return build.observation(status=seen.job.status, **given)


PENDING: dict[str, Any] = {"phase": "Pending"}


@pytest.mark.parametrize(
    ("pods", "fields", "want_reason", "want_text"),
    [
        pytest.param((), {}, Reason.WAITING_FOR_PODS, "2 workers", id="pods are being made"),
        pytest.param(
            (build.pod(0, **PENDING, unschedulable="0/9 nodes are available"),),
            {},
            Reason.UNSCHEDULABLE,
            "demo-worker-0-0: 0/9 nodes are available",
            id="the scheduler's words",
        ),
        pytest.param(
            (build.pod(0, **PENDING, containers=waiting("ErrImagePull", "nope:1 not found")),),
            {},
            Reason.IMAGE_PULL,
            "trainer: ErrImagePull: nope:1 not found",
            id="image cannot be pulled",
        ),
        pytest.param(
            (build.pod(0, **PENDING, containers=waiting("CreateContainerConfigError", "no key")),),
            {},
            Reason.CONTAINER_START,
            "no key",
            id="container cannot be made",
        ),
        pytest.param(
            (),
            {"refusal": Refusal(kind="Pod", name="p", code=403, message="exceeded quota: q")},
            Reason.QUOTA_EXCEEDED,
            "exceeded quota: q",
            id="quota",
        ),
        pytest.param(
            (),
            {"refusal": Refusal(kind="Pod", name="p", code=422, message="bad label")},
            Reason.POD_REFUSED,
            "Pod p was refused: bad label",
            id="the API server's words",
        ),
        pytest.param(
            (),
            {"conflicts": {"Service/demo-workers": "Deployment/other"}},
            Reason.NAME_CONFLICT,
            "Service/demo-workers belongs to Deployment/other",
            id="somebody else holds a child's name",
        ),
    ],
)
def test_a_hindered_job_is_pending_and_says_why(
    pods: tuple[Any, ...], fields: dict[str, Any], want_reason: Reason, want_text: str
) -> None:
    decision, again = build.after(starting(*pods, **fields))
    assert (decision.status.phase, decision.status.reason) == (Phase.PENDING, want_reason)
    assert want_text in decision.status.message
    assert decide(again).status == decision.status


def test_pull_errors_that_turn_to_and_fro_are_one_write() -> None:
    first = starting(build.pod(0, **PENDING, containers=waiting("ErrImagePull", "not found")))
    decision, seen = build.after(first)
    backoff = build.pod(0, **PENDING, containers=waiting("ImagePullBackOff", "Back-off pulling"))
    later = build.observation(status=seen.job.status, pods=(backoff, build.coordinator()))
    assert decide(later).status == decision.status


def test_when_all_run_the_condition_turns() -> None:
    decision = decide(starting(build.pod(0), build.pod(1)))
    condition = next(
        c for c in decision.status.conditions if c.type == ConditionType.NODES_AVAILABLE
    )
    assert (condition.status, condition.reason) == ("True", Reason.ALL_SCHEDULED)
    assert decision.status.phase is Phase.STARTING
