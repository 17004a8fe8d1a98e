"""A job of many workers, for cases in which many of them are hit at once."""

from collections.abc import Iterable
from typing import Any

from rtj_api.messages import FaultReport, JobView, WorkerView
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.policy.decide import decide
from rtj_operator.policy.observation import Observation
from tests.unit.policy import build

SIZE = 64


def spec(size: int = SIZE, **fields: Any) -> ResilientTrainingJobSpec:
    """That many workers and no spare, unless said otherwise."""
    return build.spec(**({"nodes": size, "spares": 0} | fields))


def view(size: int = SIZE, *, silent: Iterable[int] = (), **fields: Any) -> JobView:
    """All workers in training, but for those that the coordinator hears no more."""
    gone = frozenset(silent)
    workers: tuple[WorkerView, ...] = tuple(
        build.worker(slot, -1, connected=False) if slot in gone else build.worker(slot, slot)
        for slot in range(size)
    )
    return build.view(**({"workers": workers, "ranks_training": size * 2} | fields))


def losses(slots: Iterable[int]) -> tuple[FaultReport, ...]:
    """One report each of workers that were lost together."""
    return tuple(
        build.fault(
            "worker",
            number,
            slot=slot,
            pod_uid=f"worker-{slot}-0",
            position=slot,
            rank=slot * 2,
        )
        for number, slot in enumerate(slots, 1)
    )


def steady(given: ResilientTrainingJobSpec | None = None, **fields: Any) -> Observation:
    """The job as it trains, `fields` changed; nodes are called as in `build`."""
    given = given or spec()
    started = decide(build.observation(given)).status
    at_rest = decide(_seen(given, started)).status
    return _seen(given, at_rest, **fields)


def _seen(
    given: ResilientTrainingJobSpec, status: ResilientTrainingJobStatus, **fields: Any
) -> Observation:
    slots = range(given.nodes + given.spares)
    values: dict[str, Any] = {
        "pods": (*(build.pod(slot) for slot in slots), build.coordinator()),
        "nodes": nodes(given.nodes + given.spares),
        "view": view(given.nodes),
    }
    return build.running(given, status, **(values | fields))


def nodes(size: int = SIZE, *, unready: Iterable[int] = ()) -> dict[str, Any]:
    """A node for each worker and the coordinator's; some are called not ready."""
    found = build.nodes(*(f"n{i}" for i in range(size)), "c")
    return found | {f"n{i}": build.node(f"n{i}", ready="Unknown") for i in unready}
