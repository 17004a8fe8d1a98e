"""The tests' own client: plain JSON, no code of the operator's."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

Json = dict[str, Any]

RTJ = "/apis/resilience.training/v1alpha1"
MERGE = "application/merge-patch+json"


class ApiFailure(Exception):
    """The server refused; `code` and `message` are its own."""

    def __init__(self, method: str, path: str, code: int, body: Json) -> None:
        super().__init__(f"{method} {path}: {code} {body.get('message', body)}")
        self.code = code
        self.message: str = body.get("message", "")


class Api:
    """Requests as one user."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Json:
        """One request; raises ApiFailure."""
        headers = {"Content-Type": content_type}
        async with self._session.request(method, path, json=body, headers=headers) as answer:
            out: Json = await answer.json()
            if answer.status >= 400:
                raise ApiFailure(method, path, answer.status, out)
            return out

    async def get(self, path: str) -> Json:
        return await self.request("GET", path)

    async def find(self, path: str) -> Json | None:
        """The object, or None if there is none."""
        try:
            return await self.get(path)
        except ApiFailure as failure:
            if failure.code == 404:
                return None
            raise

    async def items(self, path: str) -> list[Json]:
        return (await self.get(path))["items"]

    async def create(self, path: str, body: Json) -> Json:
        return await self.request("POST", path, body)

    async def patch(self, path: str, body: Any, content_type: str = MERGE) -> Json:
        return await self.request("PATCH", path, body, content_type)

    async def delete(self, path: str, grace_seconds: int | None = None) -> Json:
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self.request("DELETE", path, options)


@asynccontextmanager
async def connect(url: str, token: str) -> AsyncGenerator[Api]:
    """An Api with that token."""
    async with aiohttp.ClientSession(
        url,
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=False),
        timeout=aiohttp.ClientTimeout(total=30),
    ) as session:
        yield Api(session)


async def until[T](
    what: str, look: Callable[[], Awaitable[T]], seconds: float = 20.0, pause: float = 0.05
) -> T:
    """Look until something true is found; returns it, or fails saying what was seen last."""
    deadline = time.monotonic() + seconds
    while True:
        seen = await look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; last seen: {seen!r}")
        await asyncio.sleep(pause)
