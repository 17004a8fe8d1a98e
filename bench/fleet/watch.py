"""Objects of one kind as a watch tells of them, at once."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, Self

import aiohttp
import msgspec

from tests.api.support.api import Json

# A line is one object; a status of thousands of incarnations is long.
_LINE_BYTES: Final = 16 * 1024 * 1024
_RETRY_SECONDS: Final = 0.2

type Heard = Callable[[str, Json], None]


class Watch:
    """Lists and watches `path` until cancelled; `heard(type, object)` is called for every event."""

    def __init__(self, url: str, token: str, path: str, heard: Heard, selector: str = "") -> None:
        self._url, self._token, self._path = url, token, path
        self._selector = selector
        self._heard = heard
        self._changed = asyncio.Condition()
        self._listed = asyncio.Event()
        # Name -> newest object.
        self.objects: dict[str, Json] = {}
        # Names of pods that run, kept up to date since looking through all at each event would
        # take a core.
        self.running_pods: set[str] = set()

    async def run(self) -> None:
        """Watch for ever; a broken stream is begun anew with a list."""
        headers = {"Authorization": f"Bearer {self._token}"}
        async with aiohttp.ClientSession(
            self._url,
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=False),
            read_bufsize=_LINE_BYTES,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        ) as session:
            while True:
                try:
                    await self._once(session)
                except (aiohttp.ClientError, TimeoutError, OSError):
                    await asyncio.sleep(_RETRY_SECONDS)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Watch during the block, which begins after the first list."""
        task = asyncio.create_task(self.run())
        try:
            async with asyncio.timeout(30):
                await self._listed.wait()
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, what: str, holds: Callable[[], bool], seconds: float) -> float:
        """Wait until it holds, looking at each event; returns the time (Unix seconds)."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}") from None
        return time.time()

    async def _once(self, session: aiohttp.ClientSession) -> None:
        query = {"labelSelector": self._selector} if self._selector else {}
        async with session.get(self._path, params=query) as answer:
            answer.raise_for_status()
            listed: Json = msgspec.json.decode(await answer.read())
        for name in self.objects.keys() - {i["metadata"]["name"] for i in listed["items"]}:
            await self._take("DELETED", self.objects[name])
        for item in listed["items"]:
            await self._take("ADDED", item)
        self._listed.set()
        query |= {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async with session.get(self._path, params=query) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                event: Json = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    return
                await self._take(event["type"], event["object"])

    async def _take(self, kind: str, item: Json) -> None:
        name: str = item["metadata"]["name"]
        if kind == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = item
        if kind != "DELETED" and pod_runs(item):
            self.running_pods.add(name)
        else:
            self.running_pods.discard(name)
        self._heard(kind, item)
        async with self._changed:
            self._changed.notify_all()


def pod_runs(item: Json) -> bool:
    """Whether this is a pod that runs and is not being deleted."""
    deleting = "deletionTimestamp" in item["metadata"]
    return not deleting and item.get("status", {}).get("phase") == "Running"
