"""Progress in status."""

from rtj_operator.policy.decide import decide
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_progress_waits_for_its_minute() -> None:
    view = build.view(step=50, checkpoint_step=40)
    seen = build.running(now=NOW + 20, view=view)
    early = decide(seen)
    assert early.status == seen.job.status
    assert early.wake_after_seconds == 40.0
    due = decide(build.running(now=NOW + 60, view=view)).status.progress
    assert (due.step, due.highest_step, due.checkpoint_step) == (50, 50, 40)
    assert due.observed_time == "2027-01-15T08:01:00Z"


def test_a_turn_of_the_job_writes_progress_at_once() -> None:
    view = build.view(step=50, faults=(build.fault("exit", step=50),))
    decision = decide(build.running(now=NOW + 20, view=view))
    assert decision.status.progress.step == 50


def test_a_steady_job_needs_no_look() -> None:
    seen = build.running(now=NOW + 300)
    decision = decide(seen)
    assert decision.status == seen.job.status
    assert decision.wake_after_seconds is None


def test_highest_and_checkpoint_never_fall() -> None:
    status = build.running_status()
    grown = status.progress.model_copy(update={"highest_step": 90, "checkpoint_step": 80})
    status = status.model_copy(update={"progress": grown})
    after = decide(build.running(status=status, now=NOW + 60)).status.progress
    assert (after.highest_step, after.checkpoint_step) == (90, 80)


def test_a_restarting_job_keeps_its_last_step() -> None:
    view = build.view(step=-1, highest_step=10, checkpoint_step=5)
    assert decide(build.running(now=NOW + 60, view=view)).status.progress.step == 10
