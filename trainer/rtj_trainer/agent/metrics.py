"""Prometheus metrics and liveness of the agent, served over HTTP."""

import time
from collections.abc import Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from rtj_api.messages import RankBeat

_STOP_SECONDS = 1.0


class AgentMetrics:
    """All metrics of one agent, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str) -> Counter:
            return Counter(f"rtj_agent_{name}", text, registry=self.registry)

        def per_rank(name: str, text: str) -> Gauge:
            return Gauge(f"rtj_rank_{name}", text, ["rank"], registry=self.registry)

        self.beats = counter("beats", "Beats sent to the coordinator.")
        self.connects = counter("connects", "Connections to the coordinator that were welcomed.")
        self.refusals = counter("refusals", "Connections that the coordinator refused.")
        self.launches = counter("launches", "Launches of ft_launcher.")
        self.kills = counter("kills", "Launches that the agent ended.")
        self.exits = counter("rank_failures", "Training processes that ended other than with 0.")
        self._step = per_rank("step", "Steps completed by a training process, -1 before the first.")
        self._age = per_rank("age_seconds", "Seconds since a training process wrote its record.")
        self._alive = per_rank("alive", "Whether a training process lives.")

    def show(self, ranks: Iterable[RankBeat]) -> None:
        """Take over what the ranks say; ranks of an earlier position disappear."""
        for gauge in (self._step, self._age, self._alive):
            gauge.clear()
        for rank in ranks:
            self._step.labels(rank.rank).set(rank.step)
            self._age.labels(rank.rank).set(rank.age_seconds)
            self._alive.labels(rank.rank).set(rank.alive)


class MetricsServer:
    """/metrics and /healthz. The latter answers while the event loop turns; that is all it says."""

    def __init__(self, metrics: AgentMetrics) -> None:
        self._metrics = metrics
        self._started = time.monotonic()
        app = web.Application()
        app.add_routes(
            [web.get("/metrics", self._serve_metrics), web.get("/healthz", self._serve_health)]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_SECONDS)

    async def start(self, host: str, port: int) -> None:
        """Listen on a port, on all addresses when `host` is empty; raises OSError."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host or None, port).start()

    async def stop(self) -> None:
        """Stop serving."""
        await self._runner.cleanup()

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _serve_health(self, request: web.Request) -> web.Response:
        return web.json_response({"up_seconds": round(time.monotonic() - self._started, 1)})
