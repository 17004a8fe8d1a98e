"""A hand that plays a job's coordinator on its view socket, with the real protocol and key."""

import asyncio
import contextlib
import secrets
from types import TracebackType
from typing import Self

from aiohttp import WSMsgType, web

from rtj_api import auth, capabilities, names
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
    """Listens at `address` (of 127.0.0.0/8, one a test) on the port of all coordinators.

    `seals`: as this version does; without, it is one of an earlier version.
    """

    def __init__(
        self, address: str, key: bytes, incarnation: int = 0, *, seals: bool = True
    ) -> None:
        self.address = address
        self.incarnation = incarnation
        self.hellos: list[Hello] = []
        self.directives: list[JobDirective] = []
        self.refusals: list[str] = []
        self.connections = 0
        self._key = key
        self._capabilities = capabilities.COORDINATOR if seals else ()
        # Each connection, and what seals its frames.
        self._sockets: dict[web.WebSocketResponse, auth.Channel | None] = {}
        self._view: JobView | None = JobView(coordinator_incarnation=incarnation)
        self._transports: set[asyncio.Transport] = set()
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

    def fall_silent(self) -> None:
        """Say nothing more by itself, not even to whoever connects."""
        self._view = None

    async def send(self, data: bytes) -> None:
        """Send any frame, well formed or not, to all that are connected."""
        for socket, channel in tuple(self._sockets.items()):
            await _send(socket, channel, data)

    async def inject(self, data: bytes) -> None:
        """Send what is not from the coordinator."""
        for socket in tuple(self._sockets):
            await socket.send_bytes(data)

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
        self._sockets.pop(socket, None)
        return socket

    async def _proved(self, socket: web.WebSocketResponse) -> bool:
        async with asyncio.timeout(5):
            data = (await socket.receive_str()).encode()
            hello = decode_view_socket(data)
            assert isinstance(hello, Hello)
            self.hellos.append(hello)
            nonce = secrets.token_hex(16)
            ours = auth.announced(self._capabilities, hello.capabilities)
            said = auth.said(data, ours)
            proof = auth.proof(self._key, "server", said, nonce)
            await self._answer(socket, Challenge(nonce=nonce, proof=proof, capabilities=ours))
            message = await socket.receive()
            if message.type is not WSMsgType.TEXT:
                self.refusals.append("client left")
                return False
            answer = decode_view_socket(message.data)
        if not isinstance(answer, Proof) or not auth.proves(
            self._key, "client", said, nonce, answer.proof
        ):
            self.refusals.append("bad-proof")
            await self._answer(socket, Refused(reason="bad-proof"))
            return False
        self._sockets[socket] = auth.Channel.agreed(
            self._key, "server", said, nonce, ours, hello.capabilities
        )
        await self._answer(socket, Welcome(protocol=1, coordinator_incarnation=self.incarnation))
        return True

    async def _talk(self, socket: web.WebSocketResponse) -> None:
        self.connections += 1
        channel = self._sockets[socket]
        await self._repeat(socket)
        while True:
            try:
                message = await asyncio.wait_for(socket.receive(), 2)
            except TimeoutError:
                await self._repeat(socket)
                continue
            if message.type is not (WSMsgType.BINARY if channel else WSMsgType.TEXT):
                return
            frame = decode_view_socket(channel.open(message.data) if channel else message.data)
            assert isinstance(frame, JobDirective)
            self.directives.append(frame)

    async def _repeat(self, socket: web.WebSocketResponse) -> None:
        if self._view is not None:
            await self._answer(socket, self._view)

    async def _answer(self, socket: web.WebSocketResponse, frame: Frame) -> None:
        await _send(socket, self._sockets.get(socket), encode(frame))


async def _send(socket: web.WebSocketResponse, channel: auth.Channel | None, data: bytes) -> None:
    # One whose operator was killed just now does not count as connected.
    with contextlib.suppress(ConnectionError):
        if channel is None:
            await socket.send_str(data.decode())
        else:
            await socket.send_bytes(channel.seal(data))
