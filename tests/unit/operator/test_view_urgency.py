"""How soon a view is looked at: a fault at once, a step within a second, an age never."""

import msgspec
import pytest

from rtj_api.messages import FaultReport, JobView, WorkerView
from rtj_operator.work.view_link import PROGRESS_SECONDS, urgency

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


def test_first_view_and_first_step_are_urgent() -> None:
    assert urgency(None, VIEW) == 0.0
    before = msgspec.structs.replace(VIEW, step=-1, highest_step=-1)
    assert urgency(before, VIEW) == 0.0
