"""kopf, the shell: it watches the jobs and says which one changed.

It runs in a thread and event loop of its own: an ERROR in a watch that kopf does not know ends
kopf, and then only kopf is begun anew. It writes nothing to objects and posts no Events.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from rtj_api import names
from rtj_operator.kube.credentials import login
from rtj_operator.work.queue import JobKey

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 5.0
JOIN_SECONDS: Final = 5.0
# kopf's type for it is not public.
IDENTITY: Any = "rtj-operator"


class Shell:
    """Keeps kopf running. `changed((namespace, name))` is called in the caller's loop."""

    def __init__(self, namespaces: Sequence[str], changed: Callable[[JobKey], None]) -> None:
        self._namespaces = tuple(namespaces)
        self._changed = changed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def join(self) -> None:
        """Wait a while for kopf's thread; called when `run` has ended."""
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    async def run(self) -> None:
        """Run until cancelled; kopf's thread is then told to end."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                ended = asyncio.Event()
                self._thread = threading.Thread(
                    target=self._kopf, args=(loop, ended), name="kopf", daemon=True
                )
                self._thread.start()
                await ended.wait()
                log.warning("kopf ended; starting it again in %.0f s", RESTART_SECONDS)
                await asyncio.sleep(RESTART_SECONDS)
        finally:
            self._stop.set()

    def _kopf(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
        try:
            kopf.run(
                registry=self._registry(loop),
                settings=_settings(),
                # Its own way of finding one fails for a user id without a name.
                identity=IDENTITY,
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                stop_flag=self._stop,
            )
        except Exception:
            log.exception("kopf failed")
        finally:
            if not self._stop.is_set():
                loop.call_soon_threadsafe(ended.set)

    def _registry(self, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        async def on_job(namespace: str | None, name: str | None, **_: Any) -> None:
            loop.call_soon_threadsafe(self._changed, (namespace or "", name or ""))

        kopf.on.login(registry=registry)(login)
        kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)(on_job)
        return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # Its scan needs rights on all namespaces and CRDs; jobs that it misses our informer sees.
    settings.scanning.disabled = True
    settings.queueing.idle_timeout = 0.2
    settings.queueing.exit_timeout = 0.1
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    settings.networking.request_timeout = 30
    settings.process.ultimate_exiting_timeout = None
    # None of kopf's own bookkeeping on objects.
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage([])
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    return settings
