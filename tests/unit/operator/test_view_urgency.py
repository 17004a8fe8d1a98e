"""How soon a view is looked at: a fault at once, a step within a second, an age never."""

import msgspec
import pytest

from rtj_api.messages import FaultReport, JobView, WorkerView
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.work.reconcile import awaits_step
from rtj_operator.work.view_link import IDLE_PROGRESS_SECONDS, PROGRESS_SECONDS, urgency

TIME = "2027-01-15T08:00:00Z"
WORKER = WorkerView(slot=0, incarnation=0, pod_uid="u", connected=True, position=0, step=10)
VIEW = JobView(
    coordinator_incarnation=0, run=1, workers=(WORKER,), step=10, highest_step=10, ranks_training=1
)


def with_worker(**fields: object) -> dict[str, object]:
    return {"workers": (msgspec.structs.replace(WORKER, **fields),)}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, None, id="the same"),
        pytest.param(with_worker(silent_seconds=2.0), None, id="a worker's age"),
        pytest.param({"step": 11, "highest_step": 11}, PROGRESS_SECONDS, id="a step"),
        pytest.param({"checkpoint_step": 10}, PROGRESS_SECONDS, id="a checkpoint"),
        pytest.param({"step_age_seconds": 3.5}, None, id="the age of the last step"),
        pytest.param({"refused_hellos": 7}, None, id="strangers at the coordinator's door"),
        pytest.param({"faults": (FaultReport(number=1, kind="exit"),)}, 0.0, id="a fault"),
        pytest.param(with_worker(connected=False), 0.0, id="a lost worker"),
        pytest.param({"step": -1}, 0.0, id="training began anew"),
    ],
)
def test_urgency(change: dict[str, object], want: float | None) -> None:
    assert urgency(VIEW, msgspec.structs.replace(VIEW, **change)) == want


@pytest.mark.parametrize("change", [{"step": 11, "highest_step": 11}, {"checkpoint_step": 10}])
def test_steps_that_nothing_waits_for_are_seen_once_a_minute(change: dict[str, object]) -> None:
    view = msgspec.structs.replace(VIEW, **change)
    assert urgency(VIEW, view, IDLE_PROGRESS_SECONDS) == IDLE_PROGRESS_SECONDS == 60


def test_fault_in_a_job_that_trains_well_is_urgent() -> None:
    view = msgspec.structs.replace(VIEW, step=11, faults=(FaultReport(number=1, kind="exit"),))
    assert urgency(VIEW, view, IDLE_PROGRESS_SECONDS) == 0.0


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"phase": "Pending"}, True, id="not started"),
        pytest.param({"phase": "Running"}, True, id="no step yet"),
        pytest.param({"phase": "Running", "firstStepTime": TIME}, False, id="training"),
        pytest.param({"phase": "Recovering", "firstStepTime": TIME}, True, id="recovering"),
        pytest.param({"phase": "Suspending", "firstStepTime": TIME}, True, id="suspending"),
    ],
)
def test_step_is_awaited(status: dict[str, object], want: bool) -> None:
    assert awaits_step(ResilientTrainingJobStatus.model_validate(status)) == want


def test_first_view_and_first_step_are_urgent() -> None:
    assert urgency(None, VIEW) == 0.0
    before = msgspec.structs.replace(VIEW, step=-1, highest_step=-1)
    assert urgency(before, VIEW) == 0.0
