"""What the probes are told, and the server of readiness and metrics; that of liveness is kopf's.

Alive means: the loop turns, no pass is stuck, and no stream is silent while the API server
answers. An API server that is down, or refuses us something, makes nobody unhealthy: restarting
would not help. Ready means: every list was answered, and the jobs of some namespace are known.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from rtj_operator import metrics
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import KubeError
from rtj_operator.kube.lease import Leadership
from rtj_operator.work.queue import WorkQueue

log = logging.getLogger(__name__)

STREAM_SECONDS: Final = 90.0
# Longer than a pass may take.
QUEUE_SECONDS: Final = 150.0
PROBE_SECONDS: Final = 3.0
LAG_PERIOD_SECONDS: Final = 0.1
LAG_WINDOW_SECONDS: Final = 60.0


class ListState(Protocol):
    """What is known of the lists of one collection."""

    @property
    def name(self) -> str: ...
    @property
    def synced(self) -> bool: ...
    @property
    def refused(self) -> str: ...


class Source(Protocol):
    """Keeps one collection current."""

    @property
    def listing(self) -> ListState: ...
    @property
    def silent_seconds(self) -> float: ...


class Health:
    """Judges the process; each method returns what is wrong, "" for nothing."""

    def __init__(
        self,
        client: KubeClient,
        sources: Sequence[Source],
        queue: WorkQueue,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._sources = sources
        self._queue = queue
        self._leadership = leadership

    async def alive(self) -> str:
        """That this question is answered at all shows that the loop turns."""
        stuck = self._queue.stuck_seconds
        if self._leadership.leading and stuck > QUEUE_SECONDS:
            return f"no pass over a job has begun or ended for {stuck:.0f} s"
        silent = [s.listing.name for s in self._sources if s.silent_seconds > STREAM_SECONDS]
        if not silent:
            return ""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._client.probe()
        except (KubeError, TimeoutError):
            return ""
        return f"the API server answers, but the watch of {', '.join(silent)} is silent"

    def ready(self) -> str:
        """Caches filled, of all that may be read."""
        lists = [source.listing for source in self._sources]
        unanswered = [known.name for known in lists if not known.synced and not known.refused]
        if unanswered:
            return f"not listed yet: {', '.join(unanswered)}"
        if not any(known.synced for known in lists):
            return f"refused: {'; '.join(known.refused for known in lists)}"
        return ""


async def watch_loop() -> None:
    """Measure by how much the event loop is late, for ever."""
    loop = asyncio.get_running_loop()
    lags: deque[float] = deque(maxlen=round(LAG_WINDOW_SECONDS / LAG_PERIOD_SECONDS))
    while True:
        began = loop.time()
        await asyncio.sleep(LAG_PERIOD_SECONDS)
        lag = max(0.0, loop.time() - began - LAG_PERIOD_SECONDS)
        lags.append(lag)
        metrics.LOOP_DELAY.observe(lag)
        metrics.LOOP_LAG.set(max(lags))


async def serve(health: Health, host: str, port: int) -> None:
    """Serve /readyz and /metrics until cancelled."""

    async def readyz(_: web.Request) -> web.Response:
        problem = health.ready()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    app = web.Application()
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", _metrics)
    runner = web.AppRunner(app, access_log=None)
    try:
        await runner.setup()
        await web.TCPSite(runner, host or None, port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
