"""List and watch, so that the store is never silently stale.

kopf's indexes are quadratic at start, and it never reports what was deleted during a re-list; a
reflector compares every list with its store. A watch that says nothing for longer than the
server's bookmarks come is dead and begun again.
"""

import asyncio
import logging
import random
import time
from typing import Final

import msgspec

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import ApiError, Gone, KubeError, NotFound, Status, api_error
from rtj_operator.kube.objects import Object, Resource, WatchEvent, to_number
from rtj_operator.kube.store import Store

log = logging.getLogger(__name__)

# Bookmarks come about every minute.
INACTIVITY_SECONDS: Final = 75.0
WATCH_SECONDS: Final = 300
# A full list now and then, in case anything ever slipped by.
RELIST_SECONDS: Final = 900.0
BACKOFF_FIRST_SECONDS: Final = 0.1
BACKOFF_MAX_SECONDS: Final = 10.0


class Reflector[T: Object]:
    """Keeps one store current with one collection (of a namespace, or of all)."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        store: Store[T],
        *,
        namespace: str = "",
        selector: str = "",
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._selector = selector
        self._version = ""
        self._listed_at = 0.0
        self._heard_at = time.monotonic()
        self._relist_wanted = False
        self._lists_begun = 0
        self._lists_done = 0
        self._list_done = asyncio.Condition()
        self._watch_scope: asyncio.Timeout | None = None

    @property
    def synced(self) -> bool:
        """A first list was taken in."""
        return self._lists_done > 0

    @property
    def silent_seconds(self) -> float:
        """Seconds since the server last said anything on this stream."""
        return time.monotonic() - self._heard_at

    @property
    def name(self) -> str:
        """What is watched, for messages."""
        return f"{self._resource.plural} in {self._namespace or 'all namespaces'}"

    async def relist(self) -> None:
        """Have a list made from now on, and wait until it is taken in (bound it by a timeout)."""
        # A list that is under way may have been read before the call: wait for the one after.
        wanted = self._lists_begun + 1
        self._relist_wanted = True
        if self._watch_scope is not None:
            self._watch_scope.reschedule(asyncio.get_running_loop().time())
        async with self._list_done:
            await self._list_done.wait_for(lambda: self._lists_done >= wanted)

    async def run(self) -> None:
        """List and watch for ever."""
        backoff = BACKOFF_FIRST_SECONDS
        while True:
            began = time.monotonic()
            try:
                if self._due():
                    await self._list()
                await self._watch()
            except Gone:
                log.info("watch of %s is too old: listing again", self.name)
                self._version = ""
            except (KubeError, msgspec.DecodeError) as error:
                self._complain(error)
            if time.monotonic() - began > BACKOFF_MAX_SECONDS:
                backoff = BACKOFF_FIRST_SECONDS
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, BACKOFF_MAX_SECONDS)

    def _due(self) -> bool:
        too_old = time.monotonic() - self._listed_at > RELIST_SECONDS
        return not self._version or self._relist_wanted or too_old

    def _complain(self, error: Exception) -> None:
        if isinstance(error, NotFound):
            log.warning("%s are not served: is the CRD installed? (%s)", self.name, error)
        else:
            log.warning("watch of %s broke: %s", self.name, error)
        if isinstance(error, ApiError | msgspec.DecodeError):
            # Whatever the server meant, a list brings us back to what is true.
            self._version = ""

    async def _list(self) -> None:
        self._version = ""
        self._relist_wanted = False
        self._lists_begun = number = self._lists_begun + 1
        found = await self._client.list_all(
            self._resource, self._namespace, selector=self._selector
        )
        version = found.metadata.resource_version
        self._store.replace(self._namespace, found.items, to_number(version))
        self._version = version
        self._heard_at = self._listed_at = time.monotonic()
        async with self._list_done:
            self._lists_done = number
            self._list_done.notify_all()

    async def _watch(self) -> None:
        if self._relist_wanted:
            return
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(INACTIVITY_SECONDS) as scope:
                self._watch_scope = scope
                async with self._client.watch(
                    self._resource,
                    self._namespace,
                    selector=self._selector,
                    version=self._version,
                    timeout_seconds=WATCH_SECONDS,
                ) as events:
                    async for event in events:
                        self._take(event)
                        self._heard_at = time.monotonic()
                        if not self._relist_wanted:
                            scope.reschedule(loop.time() + INACTIVITY_SECONDS)
        except TimeoutError:
            if not self._relist_wanted:
                log.warning("watch of %s was silent: beginning again", self.name)
        finally:
            self._watch_scope = None

    def _take(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            raise api_error(f"WATCH {self.name}", status.code or 500, bytes(event.object))
        if event.type == "BOOKMARK":
            mark = msgspec.json.decode(event.object, type=Object)
            self._version = mark.metadata.resource_version
            return
        item = msgspec.json.decode(event.object, type=self._resource.view)
        if event.type == "DELETED":
            self._store.remove(item)
        else:
            self._store.absorb(item)
        self._version = item.metadata.resource_version
