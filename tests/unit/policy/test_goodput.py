"""Share of the wall time in which new steps were made."""

from typing import Any

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import Outcome
from rtj_api.status import Goodput, Recovery
from rtj_operator.policy.decide import decide
from rtj_operator.policy.shown import goodput
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_lost_time_is_what_recoveries_took() -> None:
    report = build.fault(
        "exit", recovered_seconds=9.5, detected_unix=NOW + 20, detected_seconds=0.5
    )
    view = build.view(step=50, faults=(report,))
    got = decide(build.running(now=NOW + 100, view=view)).status.goodput
    assert got is not None
    assert got.lost == {Rung.IN_JOB: 10.0}
    assert (got.elapsed_seconds, got.productive_seconds) == (100.0, 90.0)
    assert got.summary == "90.0%"


def recovery(rung: Rung, begin: float, **times: Any) -> Recovery:
    """A recovery from a fault before which training made its last step at `begin`."""
    detected = times.pop("detected", begin)
    return Recovery(
        number=1,
        rung=rung,
        fault_class=FaultClass.PROCESS_DIED,
        detected_time="2027-01-15T08:00:00Z",
        deadline_time="2027-01-15T08:00:00Z",
        stalled_unix=begin,
        detected_unix=detected,
        **times,
    )


def test_before_the_first_step_nothing_is_lost() -> None:
    plan = build.plan(build.running(status=build.running_status(first_step_time=None)))
    assert goodput.lose(plan, recovery(Rung.POD, NOW - 5), NOW) is plan
    assert goodput.observe(plan) is plan
    trains = build.plan(build.running())
    lost = goodput.lose(trains, recovery(Rung.POD, NOW - 5), NOW + 1).status.goodput
    assert lost is not None
    assert lost.lost == {Rung.POD: 1.0}


def test_lost_time_begins_at_the_last_step_whoever_noticed_when() -> None:
    """Ranks stood still for 25 s before anybody knew."""
    report = build.fault(
        "worker",
        recovered_seconds=5.3,
        resumed_seconds=4.0,
        detected_unix=NOW + 30,
        detected_seconds=2.0,
        stalled_seconds=25.0,
    )
    view = build.view(step=50, faults=(report,))
    pods = (build.pod(0), build.pod(1, phase="Failed"), build.pod(2), build.coordinator())
    status = decide(build.running(now=NOW + 100, view=view, pods=pods)).status
    assert status.goodput is not None
    assert sum(status.goodput.lost.values()) == pytest.approx(30.3)
    (entry,) = status.history
    assert entry.lost is not None
    parts = entry.lost.model_dump()
    assert sum(parts.values()) == pytest.approx(30.3)
    assert parts["detect_seconds"] == pytest.approx(25.0)
    assert status.goodput.parts.model_dump() == pytest.approx(parts)


def test_the_parts_of_an_incident_add_up() -> None:
    incident = recovery(
        Rung.NODE,
        NOW,
        detected=NOW + 5,
        decided_unix=NOW + 6,
        waited_seconds=20.0,
        resumed_unix=NOW + 30,
    )
    parts = goodput.parts_of(incident, NOW + 33)
    assert parts.model_dump() == {
        "detect_seconds": 5.0,
        "decide_seconds": 1.0,
        "wait_seconds": 20.0,
        "restart_seconds": 4.0,
        "replay_seconds": 3.0,
    }


@pytest.mark.parametrize(
    ("spans", "want"),
    [
        pytest.param([(10, 20), (20, 35)], {"InJob": 10.0, "Pod": 15.0}, id="one after another"),
        pytest.param([(10, 20), (10, 35)], {"InJob": 10.0, "Pod": 15.0}, id="both from the fault"),
        pytest.param([(10, 30), (12, 20)], {"InJob": 20.0, "Pod": 0.0}, id="one within another"),
    ],
)
def test_no_moment_is_lost_twice(spans: list[tuple[float, float]], want: dict[Rung, float]) -> None:
    plan = build.plan(build.running())
    for rung, (begin, end) in zip((Rung.IN_JOB, Rung.POD), spans, strict=True):
        plan = goodput.lose(plan, recovery(rung, NOW + begin), NOW + end)
    assert plan.status.goodput is not None
    assert plan.status.goodput.lost == want


def test_rungs_climbed_share_the_time_since_the_fault() -> None:
    """InJob from 20 s to 320 s, Pod until the report says that all is well, after 350 s."""
    report = build.fault("exit", detected_unix=NOW + 20, detected_seconds=0.5)
    _, seen = build.after(build.running(now=NOW + 20.1, view=build.view(faults=(report,))))
    stands = build.view(step=-1, highest_step=10, faults=(report,))
    _, seen = build.after(build.running(status=seen.job.status, now=NOW + 320, view=stands))
    assert seen.job.status.recovery is not None
    assert seen.job.status.recovery.rung is Rung.POD
    over = build.fault("exit", detected_unix=NOW + 20, recovered_seconds=330.0)
    trains = build.running(
        status=seen.job.status,
        pods=(build.pod(0), build.pod(1, 1), build.pod(2), build.coordinator()),
        now=NOW + 351,
        view=build.view(step=11, faults=(over,)),
    )
    status = decide(trains).status
    assert status.goodput is not None
    assert status.goodput.lost == {Rung.IN_JOB: 300.5, Rung.POD: 30.0}
    assert [entry.recovered_seconds for entry in status.history] == [None, 30.0]
    assert status.goodput.elapsed_seconds == 351.0
    assert status.goodput.productive_seconds == 20.5


def test_a_spare_s_loss_costs_no_time() -> None:
    report = build.fault(
        "worker", slot=2, pod_uid="worker-2-0", position=-1, rank=-1, detected_seconds=5.0
    )
    gone = build.running(
        pods=(build.pod(0), build.pod(1), build.coordinator()),
        view=build.view(faults=(report,)),
        now=NOW + 20,
    )
    status = decide(gone).status
    assert len(status.history) == 1
    assert status.goodput is None or status.goodput.lost == {}


def test_a_recovery_under_way_shows() -> None:
    report = build.fault("exit", detected_unix=NOW + 40, detected_seconds=0.0)
    _, seen = build.after(build.running(now=NOW + 40, view=build.view(faults=(report,))))
    view = build.view(step=5, highest_step=10, faults=(report,))
    got = decide(build.running(status=seen.job.status, now=NOW + 160, view=view)).status.goodput
    assert got is not None
    assert (got.summary, got.lost) == ("25.0%", {})


def test_a_recovery_cut_short_by_a_suspension_was_lost_time() -> None:
    report = build.fault("exit", detected_unix=NOW + 40, detected_seconds=0.0)
    _, seen = build.after(build.running(now=NOW + 40, view=build.view(faults=(report,))))
    left = build.view(outcome=Outcome(state="saved"))
    suspend = build.spec(suspend=True)
    status = decide(build.running(suspend, seen.job.status, now=NOW + 100, view=left)).status
    assert status.goodput is not None
    assert status.goodput.lost == {Rung.IN_JOB: 60.0}


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Outcome(state="succeeded"), id="complete"),
        pytest.param(Outcome(state="refused"), id="failed"),
    ],
)
def test_the_figure_of_an_ended_job_stays(outcome: Outcome) -> None:
    end = build.view(outcome=outcome)
    _, seen = build.after(build.running(now=NOW + 50, view=end))
    later = build.view(outcome=outcome, step=12, checkpoint_step=12)
    got = decide(build.running(status=seen.job.status, now=NOW + 500, view=later)).status.goodput
    assert got is not None
    assert got == seen.job.status.goodput
    assert got.elapsed_seconds == 50.0


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
