"""Bad weather between a client and the real API server: answers refused, held back or cut."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
from aiohttp import web

from tests.api.support.proxy import HOP_BY_HOP
from tests.api.support.server import ApiServer
from tests.ports import free_port

# What becomes of a request: None lets it pass, a number is the answer's code.
type Rule = Callable[[web.Request], int | None]

WORDS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Weather:
    """Passes all on to the server until the test says otherwise."""

    def __init__(self, server: ApiServer) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.refused = 0
        self._server = server
        self._rule: Rule = lambda _: None
        # Open: all passes. Closed: connections stay, and nothing comes any more.
        self._open = asyncio.Event()
        self._open.set()
        self._watches: set[asyncio.Task[object]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._server.url, connector=aiohttp.TCPConnector(ssl=False, limit=0)
        )
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open.set()
        self.cut_watches()
        assert self._session is not None
        assert self._runner is not None
        await self._runner.cleanup()
        await self._session.close()

    def refuse(self, rule: Rule) -> None:
        """Answer in the server's place from now on where the rule says so."""
        self._rule = rule

    def clear(self) -> None:
        """Let all pass again."""
        self._rule = lambda _: None
        self._open.set()

    def freeze(self) -> None:
        """Half-open connections: they stay, and nothing passes in either direction."""
        self._open.clear()

    def cut_watches(self) -> None:
        """End all watches in the middle."""
        for task in tuple(self._watches):
            task.cancel()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        await self._open.wait()
        code = self._rule(request)
        if code is not None:
            self.refused += 1
            return _refusal(code)
        watch = "watch" in request.query
        task = asyncio.current_task()
        assert task is not None
        if watch:
            self._watches.add(task)
        try:
            async with self._forward(request) as upstream:
                return await self._give(request, upstream)
        except (ConnectionError, aiohttp.ClientError):
            return _refusal(503)
        finally:
            self._watches.discard(task)

    @asynccontextmanager
    async def _forward(self, request: web.Request) -> AsyncGenerator[aiohttp.ClientResponse]:
        assert self._session is not None
        async with self._session.request(
            request.method,
            request.rel_url,
            data=await request.read() or None,
            headers={k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP},
            skip_auto_headers=("Content-Type",),
        ) as upstream:
            yield upstream

    async def _give(
        self, request: web.Request, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        kept = {k: v for k, v in upstream.headers.items() if k.lower() not in HOP_BY_HOP}
        answer = web.StreamResponse(status=upstream.status, headers=kept)
        await answer.prepare(request)
        async for chunk in upstream.content.iter_any():
            await self._open.wait()
            await answer.write(chunk)
        await answer.write_eof()
        return answer


def _refusal(code: int) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": WORDS.get(code, ""),
        "message": f"the weather is bad ({code})",
        "details": {"retryAfterSeconds": 1},
    }
    return web.Response(status=code, text=json.dumps(body), content_type="application/json")
