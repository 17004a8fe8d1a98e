"""kopf: its watch of the jobs fills the store, its server answers the liveness probe.

Each watched namespace has a kopf of its own, so that what ends one (a RoleBinding that is gone, an
ERROR in a watch that kopf does not know) ends no other; one more watches nothing and answers the
probe. All of them are tasks of this event loop, begun again when they end. kopf writes nothing to
objects and posts no Events: there are only `on.event` handlers.

`kopf.operator` is `spawn_tasks` and `run_tasks`, and the latter cancels every task of the loop that
was made after kopf began, which would be all of ours. So the former alone is used.
"""

import asyncio
import dataclasses
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import kopf
import msgspec

from rtj_api import names
from rtj_operator import metrics
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.listing import Poller
from rtj_operator.kube.objects import Job
from rtj_operator.kube.store import Store

log = logging.getLogger(__name__)

END_SECONDS: Final = 10.0
PAUSE_FIRST_SECONDS: Final = 0.2
PAUSE_MAX_SECONDS: Final = 10.0
PROBE_PAUSE_MAX_SECONDS: Final = 2.0
# A kopf that lasted this long did not fail at its start.
LASTED_SECONDS: Final = 30.0
# What a list shows kopf's watch must have brought by then.
LATE_SECONDS: Final = 10.0
# Of kopf's requests. It retries 403 as well, and it is begun anew after the last of them.
RETRIES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What every kopf of a process shares. kopf takes the signals of the main thread each time it
    begins; `take_signals` gives them back to whoever ends the process."""

    credentials: Credentials
    identity: str
    take_signals: Callable[[], None]


class ProbeServer:
    """kopf's liveness endpoint. `problem` says what is wrong with the process, "" for nothing."""

    def __init__(
        self, process: Process, endpoint: str, problem: Callable[[], Awaitable[str]]
    ) -> None:
        self._process = process
        self._endpoint = endpoint
        self._problem = problem

    async def run(self) -> None:
        """Serve until cancelled."""
        pauses = _Pauses(PROBE_PAUSE_MAX_SECONDS)
        while True:
            registry = _registry(self._process)
            kopf.on.probe(id="alive", registry=registry)(self._alive)
            try:
                await _run(self._process, registry, "", endpoint=self._endpoint)
            except Exception as error:
                # While the API server is down, kopf ends about once a minute; a probe or two that
                # are missed do not count.
                log.warning("kopf's probe server ended, beginning again: %s", _text(error))
            await asyncio.sleep(pauses.next())

    async def _alive(self, **_: Any) -> str:
        problem = await self._problem()
        if problem:
            # Only this makes kopf answer 500; of anything else it would try the handler again.
            raise kopf.PermanentError(problem)
        return "ok"


class JobStream:
    """The jobs of one namespace ("": of all), from kopf's watch into the store.

    kopf reports no deletion that happens while it lists again: when it begins, ends or lists again,
    and every now and then, `lists` finds what is gone. It also proves that the watch lives.
    """

    def __init__(
        self, process: Process, namespace: str, store: Store[Job], lists: Poller[Job]
    ) -> None:
        self._process = process
        self._namespace = namespace
        self._store = store
        self._lists = lists
        # The highest version that the watch brought.
        self._heard = 0
        self._event = asyncio.Event()

    async def run(self) -> None:
        """Stream until cancelled, while the jobs may be read."""
        pauses = _Pauses(PAUSE_MAX_SECONDS)
        while True:
            await self._lists.listing.until(lambda: self._lists.listing.readable)
            try:
                await self._stream()
            except Exception as error:
                log.warning("kopf ended in %s: %s", self._name, _text(error))
            metrics.KOPF_ENDED.inc()
            await asyncio.sleep(pauses.next())

    @property
    def _name(self) -> str:
        return self._namespace or "all namespaces"

    async def _stream(self) -> None:
        """Run kopf until it ends, or is not to be relied on."""
        self._heard = 0
        work = asyncio.create_task(self._kopf(), name=f"kopf {self._namespace}")
        doubt = asyncio.create_task(self._doubt(), name=f"kopf's lateness {self._namespace}")
        try:
            await asyncio.wait((work, doubt), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            doubt.cancel()
            ended, _ = await asyncio.gather(work, doubt, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended

    async def _kopf(self) -> None:
        registry = _registry(self._process)
        kopf.on.startup(id="patience", registry=registry)(_give_up_soon)
        kopf.on.cleanup(id="gap", registry=registry)(self._gap)
        kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, id="job", registry=registry)(
            self._job
        )
        await _run(self._process, registry, self._namespace)

    async def _gap(self, **_: Any) -> None:
        """Nobody watches from here on until kopf has begun again."""
        self._lists.want()

    async def _job(self, event: kopf.RawEvent, **_: Any) -> None:
        job = msgspec.convert(event["object"], Job)
        if event["type"] == "DELETED":
            self._store.remove(job)
        else:
            self._store.absorb(job)
        if event["type"] is None:
            # Of a list: what was deleted before it is in no event.
            self._lists.want()
        self._heard = max(self._heard, job.metadata.version)
        self._event.set()

    async def _doubt(self) -> None:
        """Ends when the list is refused, or shows what the watch does not bring."""
        listing = self._lists.listing
        while True:
            await listing.answers(listing.answered + 1)
            if listing.refused:
                return
            try:
                async with asyncio.timeout(LATE_SECONDS):
                    await self._hear(listing.newest)
            except TimeoutError:
                log.warning("kopf's watch in %s is late, beginning again", self._name)
                return

    async def _hear(self, version: int) -> None:
        while self._heard < version:
            self._event.clear()
            await self._event.wait()


class _Pauses:
    """How long to wait before the next kopf: longer each time, unless the last one lasted."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._pause = PAUSE_FIRST_SECONDS
        self._began = time.monotonic()

    def next(self) -> float:
        """The pause that is due now that one ended."""
        if time.monotonic() - self._began > LASTED_SECONDS:
            self._pause = PAUSE_FIRST_SECONDS
        pause = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, self._longest)
        self._began = time.monotonic() + pause
        return pause


async def _run(
    process: Process, registry: kopf.OperatorRegistry, namespace: str, endpoint: str | None = None
) -> None:
    """One kopf, until one of its tasks ends; raises what it failed with."""
    # Its own way of naming itself fails for a user id without a name; this one it documents.
    os.environ.setdefault("POD_ID", process.identity)
    settings = kopf.OperatorSettings()
    # It is a guest: when it ends, the process is not to be killed ten minutes later. It is set here
    # since a startup handler may be cut off.
    settings.process.ultimate_exiting_timeout = None
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=not namespace,
        namespaces=(namespace,) if namespace else (),
        liveness_endpoint=endpoint,
    )
    process.take_signals()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        # Its cleanup handlers run now.
        await asyncio.wait(tasks, timeout=END_SECONDS)
    for task in done:
        task.result()


def _registry(process: Process) -> kopf.OperatorRegistry:
    """Handlers that every kopf has: its settings at startup, and its login."""
    registry = kopf.OperatorRegistry()
    asked = False

    async def login(**_: Any) -> kopf.ConnectionInfo:
        """Asked again only after a 401: then what is known will not do any more."""
        nonlocal asked
        if asked:
            await process.credentials.renewed()
        asked = True
        return process.credentials.shared

    kopf.on.startup(id="settings", registry=registry)(_configure)
    kopf.on.login(id="login", registry=registry)(login)
    return registry


async def _configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False
    # Its scan needs rights on all namespaces and CRDs.
    settings.scanning.disabled = True
    settings.queueing.idle_timeout = 0.2
    settings.queueing.exit_timeout = 0.1
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5


async def _give_up_soon(settings: kopf.OperatorSettings, **_: Any) -> None:
    """For a watch: to begin anew is quicker than kopf's own patience of a minute."""
    settings.networking.error_backoffs = RETRIES_SECONDS


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
