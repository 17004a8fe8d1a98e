"""Jobs that cannot be read or must not be touched."""

from typing import Any

import pytest

from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, EmitEvent
from tests.unit.policy import build


@pytest.mark.parametrize(
    ("job", "other", "want_reason", "want_text"),
    [
        pytest.param(
            {"spec": None, "problem": "spec.nodes: write a number of at least 1"},
            {},
            Reason.INVALID_SPEC,
            "spec.nodes",
            id="spec cannot be read",
        ),
        pytest.param(
            {"problem": "spec.template.spec.containers: name one `trainer`"},
            {},
            Reason.INVALID_SPEC,
            "trainer",
            id="spec can be read but not rendered",
        ),
        pytest.param(
            {"name": "n" * 41}, {}, Reason.INVALID_SPEC, "41 characters", id="name too long"
        ),
        pytest.param(
            {},
            {"profile": None, "profile_problem": "write p5.48xlarge"},
            Reason.UNKNOWN_INSTANCE_TYPE,
            "p5.48xlarge",
            id="unknown machine",
        ),
    ],
)
def test_an_unreadable_job_waits_with_a_condition(
    job: dict[str, Any], other: dict[str, Any], want_reason: Reason, want_text: str
) -> None:
    fields: dict[str, Any] = {"job": build.job(**job)} | other
    seen = build.observation(**fields)
    decision, again = build.after(seen)
    assert (decision.status.phase, decision.status.reason) == (Phase.PENDING, want_reason)
    assert want_text in decision.status.message
    assert build.told(decision) == [EventReason.INVALID]
    assert decision.status.run == 0
    assert decide(again).actions == (), "told once"


def test_a_job_that_runs_is_left_running_when_its_spec_becomes_unreadable() -> None:
    seen = build.running()
    broken = build.job(status=seen.job.status, spec=None, problem="spec.nodes: write a number")
    decision = decide(build.running(status=seen.job.status, job=broken))
    assert build.actions(decision, EmitEvent) == list(decision.actions)
    assert decision.status.phase is Phase.RUNNING
    degraded = next(c for c in decision.status.conditions if c.type == ConditionType.DEGRADED)
    assert (degraded.status, degraded.reason) == ("True", Reason.INVALID_SPEC)


def test_a_repaired_job_starts_and_the_condition_goes() -> None:
    _, seen = build.after(build.observation(profile=None))
    decision = decide(build.observation(status=seen.job.status))
    assert len(build.actions(decision, CreatePod)) == 4
    assert Reason.UNKNOWN_INSTANCE_TYPE not in {c.reason for c in decision.status.conditions}


def test_a_status_of_a_newer_operator_is_not_written() -> None:
    status = ResilientTrainingJobStatus(format=2)
    decision = decide(build.observation(status=status))
    assert decision.status is status
    assert decision.actions == (), "an Event from here would be told in every pass"
    assert "upgrade the operator" in decision.complaint


def test_nothing_is_done_for_a_job_being_deleted() -> None:
    seen = build.running()
    gone = build.job(status=seen.job.status, deleting=True)
    decision = decide(build.running(status=seen.job.status, job=gone, pods=()))
    assert decision.actions == ()
    assert decision.status is seen.job.status
