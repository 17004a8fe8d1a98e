"""Whole lists of one collection, taken into a store: what is missing in a list was deleted.

A list that the server refuses (a namespace whose RoleBinding is gone, a CRD that is not installed)
is an answer too: whoever waits for it goes on, and the collection counts as refused until a list
succeeds again.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from rtj_operator import metrics
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import ApiError, KubeError
from rtj_operator.kube.objects import Named, Resource, to_number
from rtj_operator.kube.store import Store

log = logging.getLogger(__name__)

REFUSALS: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
BACKOFF_FIRST_SECONDS: Final = 0.1
BACKOFF_MAX_SECONDS: Final = 10.0
# Least time from one list of a poller to the next, whoever asks.
PAUSE_SECONDS: Final = 1.0


class Listing[T: Named]:
    """Lists one collection (of a namespace, or of all) into one store.

    `news` is notified when a list was answered, and may be shared.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        store: Store[T],
        *,
        namespace: str = "",
        selector: str = "",
        news: asyncio.Condition | None = None,
    ) -> None:
        self.news = news or asyncio.Condition()
        self.heard_at = time.monotonic()
        # resourceVersion of the last list; empty when the next one is due.
        self.version = ""
        # The highest version of an object in the last list.
        self.newest = 0
        # Why the server refuses the list; empty: it does not.
        self.refused = ""
        self.begun = 0
        self.answered = 0
        self.synced = False
        self._client = client
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._selector = selector
        self._told = ""

    @property
    def name(self) -> str:
        """What is listed, for messages."""
        return f"{self._resource.plural} in {self._namespace or 'all namespaces'}"

    @property
    def readable(self) -> bool:
        """Taken in once, and not refused since."""
        return self.synced and not self.refused

    async def take(self) -> None:
        """List and take it in. Raises KubeError; a refusal is remembered as well."""
        self.version = ""
        self.begun = number = self.begun + 1
        try:
            found = await self._client.list_all(
                self._resource, self._namespace, selector=self._selector
            )
        except ApiError as error:
            self.heard_at = time.monotonic()
            if error.code in REFUSALS:
                await self._answer(number, str(error))
            raise
        version = found.metadata.resource_version
        self._store.replace(self._namespace, found.items, to_number(version))
        self.newest = max((item.metadata.version for item in found.items), default=0)
        self.version = version
        self.heard_at = time.monotonic()
        self.synced = True
        await self._answer(number, "")

    async def answers(self, number: int) -> None:
        """Wait until that list, or a later one, was taken in or refused."""
        await self.until(lambda: self.answered >= number)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that the answer to a list may have changed."""
        async with self.news:
            await self.news.wait_for(holds)

    def complain(self, error: Exception) -> None:
        """Log what went wrong, once as long as it stays the same; a refusal was told already."""
        told = self.refused or str(error) == self._told
        level = logging.DEBUG if told else logging.WARNING
        self._told = str(error)
        log.log(level, "reading %s broke, trying again: %s", self.name, error)

    async def _answer(self, number: int, refused: str) -> None:
        if bool(refused) != bool(self.refused):
            log.warning("%s: %s", self.name, f"refused: {refused}" if refused else "readable again")
        self.refused = refused
        metrics.WATCH_REFUSED.labels(self._resource.plural, self._namespace).set(bool(refused))
        if not refused:
            self._told = ""
        async with self.news:
            self.answered = number
            self.news.notify_all()


class Poller[T: Named]:
    """Lists every now and then, and when asked: for a collection that somebody else watches."""

    def __init__(self, listing: Listing[T], period_seconds: float) -> None:
        self.listing = listing
        self._period = period_seconds
        self._wanted = asyncio.Event()

    @property
    def synced(self) -> bool:
        """A first list was taken in."""
        return self.listing.synced

    @property
    def silent_seconds(self) -> float:
        """Seconds since the server last answered a list, beyond those between two of them."""
        return max(0.0, time.monotonic() - self.listing.heard_at - self._period)

    def want(self) -> None:
        """Have a list made soon."""
        self._wanted.set()

    async def relist(self) -> None:
        """Have a list made from now on, and wait until it is taken in or refused."""
        number = self.listing.begun + 1
        self.want()
        await self.listing.answers(number)

    async def run(self) -> None:
        """List for ever."""
        backoff = BACKOFF_FIRST_SECONDS
        while True:
            self._wanted.clear()
            began = time.monotonic()
            try:
                await self.listing.take()
            except (KubeError, msgspec.DecodeError) as error:
                self.listing.complain(error)
                await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
                backoff = min(backoff * 2, BACKOFF_MAX_SECONDS)
                continue
            backoff = BACKOFF_FIRST_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._wanted.wait()
            await asyncio.sleep(began + PAUSE_SECONDS - time.monotonic())
