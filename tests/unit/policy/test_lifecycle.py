"""Start, suspension before a start, resume."""

import pytest

from rtj_api.messages import Outcome
from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import CreatePod, Decision, EnsureChildren
from rtj_operator.policy.observation import ClaimObservation
from tests.unit.policy import build


def made(decision: Decision) -> list[tuple[str, int, int]]:
    pods = build.actions(decision, CreatePod)
    return [(pod.role, pod.slot, pod.incarnation) for pod in pods]


def test_a_start_makes_coordinator_workers_and_spares_at_once() -> None:
    decision = decide(build.observation())
    assert decision.status.run == 1
    assert decision.status.phase is Phase.PENDING
    assert build.actions(decision, EnsureChildren) == [EnsureChildren(coordinator_incarnation=0)]
    assert made(decision) == [
        ("coordinator", 0, 0),
        ("worker", 0, 0),
        ("worker", 1, 0),
        ("worker", 2, 0),
    ]
    assert build.told(decision) == [EventReason.STARTED]


def test_a_job_applied_suspended_makes_nothing() -> None:
    decision = decide(build.observation(build.spec(suspend=True)))
    assert decision.actions == ()
    assert (decision.status.run, decision.status.phase) == (0, Phase.SUSPENDED)


def test_its_first_start_uses_the_first_names() -> None:
    _, held = build.after(build.observation(build.spec(suspend=True)))
    decision = decide(build.observation(status=held.job.status))
    assert ("worker", 0, 0) in made(decision)
    assert decision.status.phase is Phase.PENDING


def test_a_resume_takes_the_next_names_and_a_changed_size() -> None:
    status = suspended()
    seen = build.observation(build.spec(nodes=3), status)
    decision = decide(seen)
    assert decision.status.run == 2
    assert decision.status.workers.desired == 3
    assert made(decision) == [
        ("coordinator", 0, 1),
        ("worker", 0, 1),
        ("worker", 1, 1),
        ("worker", 2, 1),
        ("worker", 3, 1),
    ]
    assert build.told(decision) == [EventReason.RESUMED]
    condition = next(c for c in decision.status.conditions if c.type == ConditionType.SUSPENDED)
    assert (condition.status, condition.reason) == ("False", Reason.RESUMED)


def test_a_resume_takes_names_above_those_of_pods_that_linger() -> None:
    pods = (build.pod(0, 4, deleting=True),)
    decision = decide(build.observation(status=suspended(), pods=pods))
    assert decision.status.incarnations["0"] == 5


def test_a_suspension_taken_back_at_once_ends_before_the_next_run_begins() -> None:
    _, asked = build.after(build.running(build.spec(suspend=True)))
    first, taken_back = build.after(build.running(status=asked.job.status))
    assert (first.status.phase, first.status.run) == (Phase.SUSPENDING, 1)
    left = build.view(outcome=Outcome(state="saved"))
    decision, seen = build.after(build.running(status=taken_back.job.status, view=left))
    assert build.told(decision) == [EventReason.SUSPENDED, EventReason.RESUMED]
    assert (decision.status.phase, decision.status.run) == (Phase.PENDING, 2)
    assert [sign.signal for sign in decision.status.pending] == ["GangIncomplete"]
    assert ("worker", 1, 1) in made(decision)
    again = decide(build.running(status=seen.job.status, view=left))
    assert again.status == decision.status


def test_a_deadline_put_off_while_ranks_leave_is_a_suspension_taken_back() -> None:
    late = build.running(build.spec(activeDeadlineSeconds=100), now=build.NOW + 100)
    _, asked = build.after(late)
    left = build.view(outcome=Outcome(state="saved"))
    longer = build.spec(activeDeadlineSeconds=1000)
    status = asked.job.status
    decision = decide(build.running(longer, status, now=build.NOW + 101, view=left))
    assert (decision.status.phase, decision.status.run) == (Phase.PENDING, 2)


@pytest.mark.parametrize("ran", [False, True])
def test_a_resume_that_waits_for_its_claim_says_so(ran: bool) -> None:
    claim = {"storage": {"checkpoints": {"claimName": "data"}}}
    never_ran = decide(build.observation(build.spec(suspend=True))).status
    status = suspended() if ran else never_ran
    missing = ClaimObservation(name="data", exists=False)
    decision = decide(build.observation(build.spec(**claim), status, claim=missing))
    assert (decision.status.phase, decision.status.reason) == (
        Phase.SUSPENDED,
        Reason.CLAIM_MISSING,
    )
    condition = next(c for c in decision.status.conditions if c.type == ConditionType.SUSPENDED)
    assert "spec.suspend is false" in condition.message
    assert made(decision) == []


def test_a_size_edited_while_running_waits_for_the_next_resume() -> None:
    decision = decide(build.running(build.spec(nodes=3, spares=0)))
    assert decision.status.workers.desired == 2
    assert decision.status.workers.summary == "2/2"


def suspended() -> ResilientTrainingJobStatus:
    """Status of a job that ran and was suspended."""
    left = build.view(outcome=Outcome(state="saved"))
    return decide(build.running(build.spec(suspend=True), view=left)).status
