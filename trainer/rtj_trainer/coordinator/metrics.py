"""/metrics and /healthz of the coordinator."""

from collections import Counter
from collections.abc import Callable, Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rtj_trainer.coordinator.core import Core

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Counts = Callable[[], Counter[str]]


class CoordinatorCollector(Collector):
    """Reads the core when it is asked, so that nothing is kept twice."""

    def __init__(self, core: Core, refusals: Counts, bad_frames: Counts) -> None:
        self._core = core
        self._refusals = refusals
        self._bad_frames = bad_frames

    def collect(self) -> Iterator[Metric]:
        """All families."""
        core = self._core
        counts = core.restarts.counts
        yield _gauge("rtj_workers_connected", "Workers whose socket is open.", _connected(core))
        yield _gauge("rtj_positions", "Positions of the training.", len(core.gang.seats))
        yield _gauge("rtj_positions_held", "Positions that a worker holds.", _held(core))
        yield _gauge("rtj_ranks_training", "Ranks that live.", core.progress.ranks_training)
        yield _gauge("rtj_step", "Lowest completed step of the ranks.", core.progress.step)
        yield _gauge("rtj_highest_step", "Highest step ever.", core.progress.highest_step)
        yield _gauge("rtj_checkpoint_step", "Newest checkpoint.", core.progress.checkpoint_step)
        yield _gauge("rtj_run", "Run of the whole gang.", core.gang.run)
        yield _gauge("rtj_round", "Highest closed rendezvous round.", core.gang.rounds.closed)
        yield _gauge("rtj_control_running", "nvrx-control serves.", core.control.running)
        yield _counter("rtj_in_process_restarts", "In-process restarts.", counts.in_process)
        yield _counter("rtj_in_job_restarts", "Rounds after the first.", counts.in_job)
        yield _counter("rtj_faults", "Faults seen.", core.ledger.number)
        yield _counter("rtj_stale_directives", "Directives ignored.", core.intent.stale)
        yield _by_reason("rtj_refused_hellos", "Clients turned away, by reason.", self._refusals())
        yield _by_reason("rtj_bad_frames", "Frames ignored, by reason.", self._bad_frames())


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _by_reason(name: str, text: str, counts: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=["reason"])
    for reason, count in counts.items():
        family.add_metric([reason], count)
    return family


def _connected(core: Core) -> int:
    return sum(1 for worker in core.table if worker.connection)


def _held(core: Core) -> int:
    return len(core.gang.seats) - len(core.gang.seats.vacant)


def application(core: Core, refusals: Counts, bad_frames: Counts) -> web.Application:
    """Serves both paths."""
    registry = CollectorRegistry()
    registry.register(CoordinatorCollector(core, refusals, bad_frames))

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": _CONTENT_TYPE})

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/metrics", show), web.get("/healthz", healthy)])
    return app
