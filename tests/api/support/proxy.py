"""A door before the real API server, at which a test can stop a client's writes one by one."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, Self

import aiohttp
from aiohttp import web

from tests.api.support.server import ApiServer
from tests.ports import free_port

READS: Final = frozenset({"GET", "HEAD"})
# Of one connection only; the others are passed on.
HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "content-encoding"}
)


class Door:
    """Lets `let_in` writes change something (the lease's do not count), then calls `closed`, which
    kills the client: before the last one's answer is given when `swallow` is set, else before the
    next write is passed on."""

    def __init__(self, server: ApiServer, closed: Callable[[], None], *, swallow: bool) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.let_in = 0
        # So many writes of the lease are done, but their answers never given.
        self.mute_leases = 0
        self._server = server
        self._closed = closed
        self._swallow = swallow
        self._one_write = asyncio.Lock()
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
        assert self._session is not None
        assert self._runner is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        if "/leases" in request.path and request.method not in READS and self.mute_leases > 0:
            self.mute_leases -= 1
            async with self._forward(request) as upstream:
                await upstream.read()
            # Until the client gives up, which cancels this.
            await asyncio.Event().wait()
        if request.method in READS or "/leases" in request.path:
            async with self._forward(request) as upstream:
                return await _give(request, upstream)
        async with self._one_write:
            if self.let_in <= 0:
                return await self._kill()
            async with self._forward(request) as upstream:
                await upstream.read()
                # One that changed nothing is no step: a Secret that is there already, for example.
                self.let_in -= upstream.status < 300
                if self._swallow and self.let_in <= 0:
                    return await self._kill()
                return await _give(request, upstream)

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

    async def _kill(self) -> web.StreamResponse:
        self._closed()
        return web.Response(status=503)


async def _give(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    kept = {k: v for k, v in upstream.headers.items() if k.lower() not in HOP_BY_HOP}
    answer = web.StreamResponse(status=upstream.status, headers=kept)
    await answer.prepare(request)
    try:
        async for chunk in _chunks(upstream):
            await answer.write(chunk)
        await answer.write_eof()
    except (ConnectionError, aiohttp.ClientError):
        # The killed client's end of it.
        return answer
    return answer


async def _chunks(upstream: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """The body: at once if it was read, else as it comes."""
    if upstream.content.at_eof():
        yield await upstream.read()
        return
    async for chunk in upstream.content.iter_any():
        yield chunk
