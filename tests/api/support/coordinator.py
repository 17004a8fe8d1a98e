"""A hand that plays a job's coordinator on its view socket, with the real protocol and key."""

import asyncio
import secrets
from types import TracebackType
from typing import Self

from aiohttp import WSMsgType, web

from rtj_api import auth, names
from rtj_api.messages import (
    Challenge,
    Frame,
    Hello,
    JobDirective,
    JobView,
    Proof,
    Refused,
    Welcome,
    decode_view_socket,
    encode,
)


class Coordinator:
    """Listens at `address` (of 127.0.0.0/8, one a test) on the port of all coordinators."""

    def __init__(self, address: str, key: bytes, incarnation: int = 0) -> None:
        self.address = address
        self.incarnation = incarnation
        self.hellos: list[Hello] = []
        self.directives: list[JobDirective] = []
        self.refusals: list[str] = []
        self.connections = 0
        self._key = key
        self._sockets: set[web.WebSocketResponse] = set()
        self._transports: set[asyncio.Transport] = set()
        self._view = JobView(coordinator_incarnation=incarnation)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get(names.VIEW_SOCKET_PATH, self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, names.PORT_VIEW_SOCKET).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cut()
        if self._runner is not None:
            await self._runner.cleanup()

    async def tell(self, view: JobView) -> None:
        """Send a view now, and to whoever connects later."""
        self._view = view
        await self.send(encode(view))

    async def send(self, data: bytes) -> None:
        """Send bytes as they are, to all that are connected."""
        for socket in tuple(self._sockets):
            await socket.send_str(data.decode())

    def deafen(self) -> None:
        """Read nothing more, on connections that stay open: pings go unanswered."""
        for transport in tuple(self._transports):
            transport.pause_reading()

    async def cut(self) -> None:
        """Close all connections."""
        for socket in tuple(self._sockets):
            await socket.close()

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        assert isinstance(request.transport, asyncio.Transport)
        self._transports.add(request.transport)
        if await self._proved(socket):
            await self._talk(socket)
        return socket

    async def _proved(self, socket: web.WebSocketResponse) -> bool:
        async with asyncio.timeout(5):
            data = (await socket.receive_str()).encode()
            hello = decode_view_socket(data)
            assert isinstance(hello, Hello)
            self.hellos.append(hello)
            nonce = secrets.token_hex(16)
            ours = auth.proof(self._key, "server", data, nonce)
            await self._answer(socket, Challenge(nonce=nonce, proof=ours))
            message = await socket.receive()
            if message.type is not WSMsgType.TEXT:
                self.refusals.append("client left")
                return False
            answer = decode_view_socket(message.data)
        if not isinstance(answer, Proof) or not auth.proves(
            self._key, "client", data, nonce, answer.proof
        ):
            self.refusals.append("bad-proof")
            await self._answer(socket, Refused(reason="bad-proof"))
            return False
        await self._answer(socket, Welcome(protocol=1, coordinator_incarnation=self.incarnation))
        return True

    async def _talk(self, socket: web.WebSocketResponse) -> None:
        self._sockets.add(socket)
        self.connections += 1
        try:
            await self._answer(socket, self._view)
            while True:
                try:
                    message = await asyncio.wait_for(socket.receive(), 2)
                except TimeoutError:
                    await self._answer(socket, self._view)
                    continue
                if message.type is not WSMsgType.TEXT:
                    return
                frame = decode_view_socket(message.data)
                assert isinstance(frame, JobDirective)
                self.directives.append(frame)
        finally:
            self._sockets.discard(socket)

    async def _answer(self, socket: web.WebSocketResponse, frame: Frame) -> None:
        await socket.send_str(encode(frame).decode())
