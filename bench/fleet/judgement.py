"""How long decide() takes for a large job: the pure function, in this process."""

import statistics
import time
from dataclasses import replace
from typing import Final

from bench.fleet.figures import Figures
from rtj_api.messages import MAX_FAULTS, FaultReport, JobView, LauncherState, WorkerView
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.observation import (
    ContainerObservation,
    JobObservation,
    NodeObservation,
    Observation,
    PodObservation,
    ProfileObservation,
)

NOW: Final = 1_800_000_000.0
STEADY_CALLS: Final = 15
# The passes that follow one break: at once, when silence is judged, and later.
AFTER_SECONDS: Final = (0.0, 1.0, 2.5, 6.0, 12.0)


def measure(figures: Figures) -> None:
    """All figures of decide()."""
    for size in (1000, 4096):
        figures.add(f"decide_{size}_ms", 1000 * steady_seconds(size))
    figures.add("decide_half_silent_ms", 1000 * half_silent_seconds(1000))


def steady_seconds(size: int) -> float:
    """Median of a pass over a job that trains, in which nothing has happened."""
    seen = at_rest(size)
    return statistics.median(_timed(seen)[0] for _ in range(STEADY_CALLS))


def half_silent_seconds(size: int) -> float:
    """The longest pass of those that judge that half of the workers fell silent."""
    silent = frozenset(range(size // 2))
    reports = tuple(_loss(number, slot) for number, slot in enumerate(sorted(silent), 1))
    seen = replace(at_rest(size), view=_view(size, silent, reports[-MAX_FAULTS:]))
    longest = 0.0
    for after in AFTER_SECONDS:
        seconds, status = _timed(replace(seen, now=NOW + after))
        longest = max(longest, seconds)
        seen = replace(seen, job=replace(seen.job, status=status))
    return longest


def at_rest(size: int) -> Observation:
    """A job that trains and of which status tells all."""
    spec = ResilientTrainingJobSpec.model_validate(
        {
            "nodes": size,
            "instanceType": "cpu",
            "template": {"spec": {"containers": [{"name": "trainer", "image": "trainer"}]}},
        }
    )
    job = JobObservation(
        namespace="default",
        name="demo",
        uid="job-uid",
        generation=1,
        resource_version="1",
        spec=spec,
        status=ResilientTrainingJobStatus(),
    )
    names = [*(f"node-{slot}" for slot in range(size)), "node-c"]
    seen = Observation(
        now=NOW,
        job=job,
        profile=ProfileObservation(name="cpu", processes_per_node=1, device="cpu"),
        nodes={name: NodeObservation(name=name, uid=f"{name}-uid") for name in names},
        matching_nodes=len(names),
    )
    seen = _written(seen)
    pods = (*(_pod(slot) for slot in range(size)), _coordinator())
    seen = replace(seen, pods=pods, view=_view(size), view_connected=True)
    for _ in range(3):
        seen = _written(seen)
    return seen


def _written(seen: Observation) -> Observation:
    return replace(seen, job=replace(seen.job, status=decide(seen).status))


def _timed(seen: Observation) -> tuple[float, ResilientTrainingJobStatus]:
    # Of the processor, so that whatever else runs on the machine does not count.
    began = time.process_time()
    status = decide(seen).status
    return time.process_time() - began, status


def _pod(slot: int) -> PodObservation:
    return PodObservation(
        name=f"demo-worker-{slot}-0",
        uid=f"worker-{slot}-0",
        role="worker",
        slot=slot,
        incarnation=0,
        phase="Running",
        created=NOW - 600,
        node=f"node-{slot}",
        ip=f"10.0.{slot // 250}.{slot % 250}",
        containers=(ContainerObservation(name="trainer", state="running"),),
    )


def _coordinator() -> PodObservation:
    return replace(
        _pod(0), name="demo-coordinator-0", uid="coordinator-0", role="coordinator", node="node-c"
    )


def _view(
    size: int, silent: frozenset[int] = frozenset(), faults: tuple[FaultReport, ...] = ()
) -> JobView:
    return JobView(
        coordinator_incarnation=0,
        run=1,
        round=0,
        control="running",
        workers=tuple(_worker(slot, slot in silent) for slot in range(size)),
        step=10,
        highest_step=10,
        ranks_training=size - len(silent),
        faults=faults,
    )


def _worker(slot: int, silent: bool) -> WorkerView:
    position = -1 if silent else slot
    return WorkerView(
        slot=slot,
        incarnation=0,
        pod_uid=f"worker-{slot}-0",
        connected=True,
        silent_seconds=5.1 if silent else 0.0,
        position=position,
        launcher=LauncherState(state="training", run=1, position=slot, launch=0, pid=1),
        step=10,
    )


def _loss(number: int, slot: int) -> FaultReport:
    return FaultReport(
        number=number,
        kind="worker",
        run=1,
        round=0,
        slot=slot,
        incarnation=0,
        pod_uid=f"worker-{slot}-0",
        position=slot,
        rank=slot,
        step=10,
        detected_unix=NOW - 0.2,
        detected_seconds=5.1,
    )
