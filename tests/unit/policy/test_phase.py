"""What people see of a job."""

from dataclasses import replace
from typing import Any

import pytest

from rtj_api.reasons import ConditionType, Phase, Reason
from rtj_operator.policy.decide import decide
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def condition(decision: Any, type_: ConditionType) -> tuple[str, str]:
    found = next(c for c in decision.status.conditions if c.type == type_)
    return found.status, found.reason


def test_from_nothing_to_running() -> None:
    first, seen = build.after(build.observation())
    assert (first.status.phase, first.status.reason) == (Phase.PENDING, Reason.WAITING_FOR_PODS)
    pods = (build.pod(0), build.pod(1), build.pod(2), build.coordinator())
    second, seen = build.after(build.observation(status=seen.job.status, pods=pods))
    assert (second.status.phase, second.status.reason) == (
        Phase.STARTING,
        Reason.WAITING_FOR_FIRST_STEP,
    )
    third = decide(build.running(status=seen.job.status))
    assert (third.status.phase, third.status.reason) == (Phase.RUNNING, Reason.TRAINING)
    assert condition(third, ConditionType.RUNNING) == ("True", Reason.TRAINING)
    assert third.status.first_step_time == "2027-01-15T08:00:00Z"


def test_running_stays_while_no_view_arrives() -> None:
    seen = build.running(view=None, view_connected=False)
    assert decide(seen).status == seen.job.status


@pytest.mark.parametrize(
    ("fields", "want", "wake"),
    [
        pytest.param({"view_lost_seconds": 4.0}, Reason.TRAINING, 1.0, id="not for long"),
        pytest.param({"view_lost_seconds": 5.0}, Reason.COORDINATOR_UNHEARD, None, id="no more"),
        pytest.param(
            {"view_lost_seconds": 50.0, "view": None},
            Reason.COORDINATOR_UNHEARD,
            None,
            id="never by this operator",
        ),
    ],
)
def test_running_does_not_claim_steps_that_nobody_sees(
    fields: dict[str, Any], want: Reason, wake: float | None
) -> None:
    seen = build.running(view_connected=False, **fields)
    decision, later = build.after(seen, now=NOW + 60)
    assert (decision.status.phase, decision.status.reason) == (Phase.RUNNING, want)
    assert condition(decision, ConditionType.RUNNING) == ("True", want)
    assert decision.wake_after_seconds == wake
    assert decide(later).status == decision.status, "it is written once"
    heard = decide(replace(later, view=build.view(), view_connected=True, view_lost_seconds=0.0))
    assert heard.status.reason == Reason.TRAINING


def test_a_recovery_waiting_for_a_node_shows_the_scheduler_s_words() -> None:
    lost = build.running(
        pods=(build.pod(0), build.pod(1, deleting=True), build.coordinator()),
        view=build.view(workers=(build.worker(0, 0), build.worker(1, 1))),
    )
    _, seen = build.after(lost)
    stuck = build.pod(1, 1, phase="Pending", node="", unschedulable="no node is free")
    pods = (build.pod(0), stuck, build.coordinator())
    decision = decide(build.running(status=seen.job.status, pods=pods))
    assert (decision.status.phase, decision.status.reason) == (
        Phase.RECOVERING,
        Reason.UNSCHEDULABLE,
    )
    assert "no node is free" in decision.status.message


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            (build.pod(0), build.pod(1), build.pod(2), build.coordinator()),
            ("False", Reason.HEALTHY),
            id="all there",
        ),
        pytest.param(
            (build.pod(0), build.pod(1), build.pod(2, phase="Pending"), build.coordinator()),
            ("True", Reason.SPARE_MISSING),
            id="one fewer than wanted, enough to train",
        ),
        pytest.param(
            (
                build.pod(0),
                build.pod(1, phase="Pending"),
                build.pod(2, phase="Pending"),
                build.coordinator(),
            ),
            ("True", Reason.WORKER_MISSING),
            id="not enough to train",
        ),
        pytest.param(
            (build.pod(0), build.pod(1), build.pod(2), build.coordinator(phase="Pending")),
            ("True", Reason.COORDINATOR_MISSING),
            id="no coordinator",
        ),
    ],
)
def test_degraded(pods: tuple[Any, ...], want: tuple[str, str]) -> None:
    assert condition(decide(build.running(pods=pods)), ConditionType.DEGRADED) == want


@pytest.mark.parametrize(
    ("workers", "want"),
    [
        pytest.param((build.worker(0, 0), build.worker(1, 1), build.worker(2, -1)), ("2/2", 1)),
        pytest.param(
            (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1)),
            ("2/2", 0),
        ),
        pytest.param(
            (build.worker(0, 0), build.worker(1, 1, silent_seconds=9.0), build.worker(2, -1)),
            ("1/2", 1),
        ),
    ],
    ids=["all are heard", "a spare took over", "one is silent"],
)
def test_columns(workers: Any, want: tuple[str, int]) -> None:
    got = decide(build.running(view=build.view(workers=workers))).status.workers
    assert (got.summary, got.spares) == want


def test_a_lost_worker_being_judged_shows_as_recovering() -> None:
    silent = (build.worker(0, 0), build.worker(1, -1, connected=False), build.worker(2, 1))
    view = build.view(workers=silent, faults=(build.fault("worker"),))
    decision = decide(build.running(view=view, now=NOW))
    assert decision.status.phase is Phase.RECOVERING


def test_a_lost_spare_being_judged_does_not() -> None:
    workers = (build.worker(0, 0), build.worker(1, 1), build.worker(2, -1, connected=False))
    report = build.fault("worker", slot=2, pod_uid="worker-2-0", position=-1, rank=-1)
    decision = decide(build.running(view=build.view(workers=workers, faults=(report,))))
    assert decision.status.phase is Phase.RUNNING
    assert decision.wake_after_seconds == 2.0
