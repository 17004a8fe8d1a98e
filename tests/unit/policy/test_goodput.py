"""Share of the wall time in which new steps were made."""

from rtj_api.ladder import Rung
from rtj_api.messages import Outcome
from rtj_api.status import Goodput
from rtj_operator.policy import goodput
from rtj_operator.policy.decide import decide
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_lost_time_is_what_recoveries_took() -> None:
    report = build.fault("exit", recovered_seconds=9.5, detected_seconds=0.5, step=10)
    view = build.view(step=50, faults=(report,))
    got = decide(build.running(now=NOW + 100, view=view)).status.goodput
    assert got is not None
    assert got.lost == {Rung.IN_JOB: 10.0}
    assert (got.elapsed_seconds, got.productive_seconds) == (100.0, 90.0)
    assert got.summary == "90.0%"


def test_before_the_first_step_nothing_is_lost() -> None:
    plan = build.plan(build.running(status=build.running_status(first_step_time=None)))
    assert goodput.lose(plan, Rung.POD, 5.0) is plan
    assert goodput.observe(plan) is plan


def test_time_adds_up_over_observations() -> None:
    _, seen = build.after(build.running(now=NOW + 60, view=build.view(step=20)))
    later = build.running(status=seen.job.status, now=NOW + 130, view=build.view(step=30))
    got = decide(later).status.goodput
    assert got is not None
    assert got.elapsed_seconds == 130.0
    assert got.summary == "100.0%"


def test_time_spent_suspended_counts_as_neither() -> None:
    left = build.view(outcome=Outcome(state="saved"))
    suspend = build.spec(suspend=True)
    _, held = build.after(build.running(suspend, now=NOW + 50, view=left))
    resumed = decide(build.observation(status=held.job.status, now=NOW + 5_000))
    got = resumed.status.goodput
    assert got is not None
    assert got.elapsed_seconds == 50.0
    assert resumed.status.progress.observed_time == "2027-01-15T09:23:20Z"


def test_no_time_has_no_share() -> None:
    plan = goodput.observe(build.plan(build.running(status=build.running_status(goodput=None))))
    assert plan.status.goodput == Goodput()
