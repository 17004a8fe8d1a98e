"""Connections of agents and operators: the handshake's server side, reading and writing frames.

Both sockets use the same machinery. A client that does not prove that it knows the job's key within
the deadline is turned away; the key itself never crosses the wire (rtj_api.auth).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from aiohttp import WebSocketError, WSCloseCode, WSMsgType, web

from rtj_api import auth, capabilities
from rtj_api.messages import (
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    Challenge,
    Frame,
    Hello,
    Proof,
    Refused,
    Welcome,
    encode,
)
from rtj_api.tolerant import Reader, Tolerant

log = logging.getLogger("rtj.coordinator")

HANDSHAKE_SECONDS: Final = 5.0
SEND_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 1.0

Refusal = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this coordinator is."""

    job_uid: str
    incarnation: int
    key: bytes


@dataclass(slots=True)
class _Line:
    """A connection below the frames' meaning; `bad_frames` is its endpoint's."""

    socket: web.WebSocketResponse
    remote: str
    bad_frames: Counter[str]
    # Once agreed on: what is received must be sealed, what is sent is.
    channel: auth.Channel | None = None

    async def send(self, frame: bytes) -> None:
        if self.channel is None:
            await self.socket.send_str(frame.decode())
        else:
            await self.socket.send_bytes(self.channel.seal(frame))

    async def receive(self) -> bytes | str | None:
        """The next frame's data; None when the connection ended, as it does at a broken frame."""
        data = await self._receive()
        if data is None or self.channel is None:
            return data
        try:
            return self.channel.open(data)
        except auth.BrokenSeal as error:
            self.bad_frames["forged"] += 1
            log.warning("%s: connection closed: %s", self.remote, error)
            return None

    async def _receive(self) -> bytes | str | None:
        message = await self.socket.receive()
        if message.type is WSMsgType.ERROR and isinstance(message.data, WebSocketError):
            oversized = message.data.code == WSCloseCode.MESSAGE_TOO_BIG
            self.bad_frames["oversized" if oversized else "malformed"] += 1
            log.warning("%s: connection closed: %s", self.remote, message.data)
            return None
        return message.data if message.type in (WSMsgType.TEXT, WSMsgType.BINARY) else None


class Peer:
    """One proven connection. What is offered last is sent; what was not sent yet is forgotten,
    because every frame carries the whole state."""

    def __init__(self, hello: Hello, line: _Line, request: web.Request) -> None:
        self.hello = hello
        self._line = line
        self._request = request
        self._next: bytes | None = None
        self._offered = asyncio.Event()
        self._complained = False

    def offer(self, frame: bytes) -> None:
        """Send this, encoded, as soon as the connection takes it."""
        self._next = frame
        self._offered.set()

    def abort(self) -> None:
        """Close at once, without a word."""
        if self._request.transport is not None:
            self._request.transport.abort()

    async def frames[F: Frame](self, kind: Tolerant[F]) -> AsyncGenerator[F]:
        """Frames until the connection ends; what does not decode is told once and skipped."""
        reader = Reader(kind, self._tell)
        writing = asyncio.create_task(self._write())
        try:
            while (data := await self._line.receive()) is not None:
                try:
                    frame = reader.decode(data)
                except msgspec.DecodeError as error:
                    self._line.bad_frames["malformed"] += 1
                    self._complain(f"frame not understood, ignored: {error}")
                else:
                    yield frame
        finally:
            writing.cancel()

    def misplaced(self, frame: Frame) -> None:
        """A frame that this side does not take."""
        self._line.bad_frames["misplaced"] += 1
        self._complain(f"{type(frame).__name__} is not for this side, ignored")

    async def _write(self) -> None:
        try:
            while True:
                await self._offered.wait()
                self._offered.clear()
                frame, self._next = self._next, None
                if frame is not None:
                    async with asyncio.timeout(SEND_SECONDS):
                        await self._line.send(frame)
        except (OSError, TimeoutError, RuntimeError) as error:
            self._complain(f"cannot be written to: {error!r}")
            self.abort()

    def _complain(self, text: str) -> None:
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        log.log(level, "%s: %s", self._name, text)

    def _tell(self, text: str) -> None:
        log.info("%s %s", self._name, text)

    @property
    def _name(self) -> str:
        return self.hello.pod_name or self.hello.role


class Endpoint:
    """One WebSocket path: lets in who proves itself and serves it."""

    def __init__(
        self,
        identity: Identity,
        role: Literal["worker", "operator"],
        kind: Tolerant[Any],
        max_frame_bytes: int,
        max_connections: int,
        admit: Callable[[Hello], Refusal | None],
        serve: Callable[[Peer], Awaitable[None]],
    ) -> None:
        self._identity = identity
        self._role = role
        self._decode = kind.decode
        self._max_frame_bytes = max_frame_bytes
        self._max_connections = max_connections
        self._admit = admit
        self._serve = serve
        self._open = 0
        # Clients turned away, by reason.
        self.refusals: Counter[str] = Counter()
        # Frames that nothing was done with, by reason: malformed, misplaced, oversized, forged.
        self.bad_frames: Counter[str] = Counter()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """aiohttp's handler."""
        if self._open >= self._max_connections:
            self.refusals["full"] += 1
            return web.Response(status=503, text="too many connections")
        socket = web.WebSocketResponse(
            max_msg_size=self._max_frame_bytes, compress=False, timeout=_CLOSE_SECONDS
        )
        await socket.prepare(request)
        line = _Line(socket, request.remote or "", self.bad_frames)
        self._open += 1
        try:
            hello = await self._let_in(line)
            if hello is not None:
                await self._serve(Peer(hello, line, request))
        except OSError as error:
            log.debug("%s: connection ended: %r", request.remote, error)
        finally:
            self._open -= 1
            await socket.close()
        return socket

    async def _let_in(self, line: _Line) -> Hello | None:
        """The handshake; None if the client was turned away or left."""
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                return await self._shake_hands(line)
        except TimeoutError:
            self.refusals["timeout"] += 1
        except msgspec.DecodeError as error:
            await self._refuse(line, ("protocol", f"handshake not understood: {error}"))
        return None

    async def _shake_hands(self, line: _Line) -> Hello | None:
        raw = await line.receive()
        if raw is None:
            return None
        hello = self._decode(raw)
        refusal = self._check(hello)
        if refusal is not None or not isinstance(hello, Hello):
            return await self._refuse(line, refusal or ("protocol", "Hello was due"))
        key, nonce = self._identity.key, auth.new_nonce()
        ours = auth.announced(capabilities.COORDINATOR, hello.capabilities)
        said = auth.said(raw.encode() if isinstance(raw, str) else raw, ours)
        proof = auth.proof(key, "server", said, nonce)
        await line.send(encode(Challenge(nonce=nonce, proof=proof, capabilities=ours)))
        answer = await line.receive()
        if answer is None:
            return None
        client = self._decode(answer)
        if not isinstance(client, Proof) or not auth.proves(
            key, "client", said, nonce, client.proof
        ):
            return await self._refuse(line, ("bad-proof", "the job's key is not known to you"))
        refusal = self._admit(hello)
        if refusal is not None:
            return await self._refuse(line, refusal)
        protocol = min(PROTOCOL_MAX, hello.protocol_max)
        welcome = Welcome(protocol=protocol, coordinator_incarnation=self._identity.incarnation)
        line.channel = auth.Channel.agreed(key, "server", said, nonce, ours, hello.capabilities)
        await line.send(encode(welcome))
        return hello

    def _check(self, hello: Frame) -> Refusal | None:
        """What can be judged before the proof."""
        if not isinstance(hello, Hello) or hello.role != self._role:
            return "protocol", f"a Hello of a {self._role} was due"
        if hello.job_uid != self._identity.job_uid:
            return "wrong-job", f"this is the coordinator of job {self._identity.job_uid}"
        if hello.protocol_min > PROTOCOL_MAX or hello.protocol_max < PROTOCOL_MIN:
            return "protocol", f"protocols {PROTOCOL_MIN} to {PROTOCOL_MAX} are spoken here"
        return None

    async def _refuse(self, line: _Line, refusal: Refusal) -> None:
        reason, message = refusal
        self.refusals[reason] += 1
        log.info("%s refused: %s: %s", self._role, reason, message)
        await line.send(encode(Refused(reason=reason, message=message)))
