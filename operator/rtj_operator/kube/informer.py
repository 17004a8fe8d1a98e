"""List and watch, so that the store is never silently stale.

A watch that says nothing for longer than the server's bookmarks come is dead and begun again, and
a list now and then finds whatever slipped by.
"""

import asyncio
import logging
import random
import time
from typing import Final

import msgspec

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import ApiError, Gone, KubeError, Status, api_error
from rtj_operator.kube.listing import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, Listing
from rtj_operator.kube.objects import Named, Object, Resource, WatchEvent
from rtj_operator.kube.store import Store

log = logging.getLogger(__name__)

# Bookmarks come about every minute.
INACTIVITY_SECONDS: Final = 75.0
WATCH_SECONDS: Final = 300
RELIST_SECONDS: Final = 900.0


class Reflector[T: Named]:
    """Keeps one store current with one collection (of a namespace, or of all)."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        store: Store[T],
        *,
        namespace: str = "",
        selector: str = "",
        news: asyncio.Condition | None = None,
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        self.listing = Listing(
            client, resource, store, namespace=namespace, selector=selector, news=news
        )
        self._client = client
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._selector = selector
        self._relist_seconds = relist_seconds
        self._listed_at = 0.0
        self._relist_wanted = False
        self._watch_scope: asyncio.Timeout | None = None

    @property
    def synced(self) -> bool:
        """A first list was taken in."""
        return self.listing.synced

    @property
    def silent_seconds(self) -> float:
        """Seconds since the server last said anything on this stream."""
        return time.monotonic() - self.listing.heard_at

    async def relist(self) -> None:
        """Have a list made from now on, and wait until it is taken in or refused."""
        # A list that is under way may have been read before the call: wait for the one after.
        number = self.listing.begun + 1
        self._relist_wanted = True
        if self._watch_scope is not None:
            self._watch_scope.reschedule(asyncio.get_running_loop().time())
        await self.listing.answers(number)

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
                log.info("watch of %s is too old: listing again", self.listing.name)
                self.listing.version = ""
            except (KubeError, msgspec.DecodeError) as error:
                self.listing.complain(error)
                if isinstance(error, ApiError | msgspec.DecodeError):
                    # Whatever the server meant, a list brings us back to what is true.
                    self.listing.version = ""
            if time.monotonic() - began > BACKOFF_MAX_SECONDS:
                backoff = BACKOFF_FIRST_SECONDS
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, BACKOFF_MAX_SECONDS)

    def _due(self) -> bool:
        too_old = time.monotonic() - self._listed_at > self._relist_seconds
        return not self.listing.version or self._relist_wanted or too_old

    async def _list(self) -> None:
        self._relist_wanted = False
        await self.listing.take()
        self._listed_at = time.monotonic()

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
                    version=self.listing.version,
                    timeout_seconds=WATCH_SECONDS,
                ) as events:
                    async for event in events:
                        self._take(event)
                        self.listing.heard_at = time.monotonic()
                        if not self._relist_wanted:
                            scope.reschedule(loop.time() + INACTIVITY_SECONDS)
        except TimeoutError:
            if not self._relist_wanted:
                log.warning("watch of %s was silent: beginning again", self.listing.name)
        finally:
            self._watch_scope = None

    def _take(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=Status)
            raise api_error(f"WATCH {self.listing.name}", status.code or 500, bytes(event.object))
        if event.type == "BOOKMARK":
            mark = msgspec.json.decode(event.object, type=Object)
            self.listing.version = mark.metadata.resource_version
            return
        item = msgspec.json.decode(event.object, type=self._resource.view)
        if event.type == "DELETED":
            self._store.remove(item)
        else:
            self._store.absorb(item)
        self.listing.version = item.metadata.resource_version
