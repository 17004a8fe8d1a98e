"""Probes and metrics over HTTP.

Alive means: the loop turns, no pass is stuck, and no stream is silent while the API server
answers. An API server that is down makes nobody unhealthy: restarting would not help. Ready means:
the caches were filled once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from rtj_operator import metrics
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import KubeError
from rtj_operator.kube.informer import Reflector
from rtj_operator.kube.lease import Leadership
from rtj_operator.work.queue import WorkQueue

log = logging.getLogger(__name__)

STREAM_SECONDS: Final = 90.0
# Longer than a pass may take.
QUEUE_SECONDS: Final = 150.0
PROBE_SECONDS: Final = 3.0
LAG_PERIOD_SECONDS: Final = 0.5
LAG_WINDOW_SECONDS: Final = 60.0

type Check = Callable[[], Awaitable[str]]


class Health:
    """Judges the process; each method returns what is wrong, "" for nothing."""

    def __init__(
        self,
        client: KubeClient,
        reflectors: Sequence[Reflector[Any]],
        queue: WorkQueue,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._reflectors = reflectors
        self._queue = queue
        self._leadership = leadership

    async def alive(self) -> str:
        """That this question is answered at all shows that the loop turns."""
        stuck = self._queue.stuck_seconds
        if self._leadership.leading and stuck > QUEUE_SECONDS:
            return f"no pass over a job has begun or ended for {stuck:.0f} s"
        silent = [r.name for r in self._reflectors if r.silent_seconds > STREAM_SECONDS]
        if not silent:
            return ""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._client.probe()
        except (KubeError, TimeoutError):
            return ""
        return f"the API server answers, but the watch of {', '.join(silent)} is silent"

    async def ready(self) -> str:
        """Caches filled."""
        missing = [r.name for r in self._reflectors if not r.synced]
        return f"not listed yet: {', '.join(missing)}" if missing else ""


async def watch_loop() -> None:
    """Measure by how much the event loop is late, for ever."""
    loop = asyncio.get_running_loop()
    lags: deque[float] = deque(maxlen=round(LAG_WINDOW_SECONDS / LAG_PERIOD_SECONDS))
    while True:
        began = loop.time()
        await asyncio.sleep(LAG_PERIOD_SECONDS)
        lags.append(max(0.0, loop.time() - began - LAG_PERIOD_SECONDS))
        metrics.LOOP_LAG.set(max(lags))


async def serve(health: Health, host: str, probe_port: int, metrics_port: int) -> None:
    """Serve until cancelled."""
    probes = web.Application()
    probes.router.add_get("/healthz", _answer(health.alive))
    probes.router.add_get("/readyz", _answer(health.ready))
    figures = web.Application()
    figures.router.add_get("/metrics", _metrics)
    runners = [web.AppRunner(app, access_log=None) for app in (probes, figures)]
    try:
        for runner, port in zip(runners, (probe_port, metrics_port), strict=True):
            await runner.setup()
            await web.TCPSite(runner, host or None, port).start()
        await asyncio.Event().wait()
    finally:
        for runner in runners:
            await runner.cleanup()


def _answer(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        problem = await check()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    return handle


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
