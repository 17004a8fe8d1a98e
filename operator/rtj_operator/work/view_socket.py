"""One connection to a coordinator's view socket: the handshake's client side, and frames.

The coordinator must prove that it knows the job's key before this side proves anything. Frames are
sealed where both sides announced that they can (see `rtj_api.auth`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

import aiohttp
import msgspec

from rtj_api import auth, capabilities
from rtj_api.messages import (
    VIEW_SOCKET,
    Challenge,
    Frame,
    Hello,
    Proof,
    Refused,
    ViewSocketFrame,
    Welcome,
    encode,
)
from rtj_api.tolerant import Reader
from rtj_operator import metrics

SEND_SECONDS: Final = 5.0
REASONS: Final = frozenset(
    {
        "bad-proof",
        "wrong-job",
        "protocol",
        "stale-incarnation",
        "not-expected",
        "stale-epoch",
    }
)


class ViewError(Exception):
    """The connection cannot be used; another one is tried."""


class ViewRefused(ViewError):
    """One side turned the other away; `reason` is a word of `messages.Refused`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        # The other side's words must not make series of their own.
        self.label = reason if reason in REASONS else "other"


class ViewSocket:
    """`complain` is called for each frame that is not understood, `tell` once for what only a newer
    version knows."""

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse,
        complain: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> None:
        self._socket = socket
        self._complain = complain
        self._reader = Reader(VIEW_SOCKET, tell)
        # Once agreed on: what is received must be sealed, what is sent is.
        self._channel: auth.Channel | None = None
        # What the coordinator announced.
        self.capabilities: tuple[str, ...] = ()

    async def shake_hands(self, key: bytes, job_uid: str, incarnation: int, epoch: int) -> None:
        """Prove each other; raises ViewError if that is not the coordinator of that incarnation."""
        hello = encode(
            Hello(
                role="operator",
                job_uid=job_uid,
                nonce=auth.new_nonce(),
                epoch=epoch,
                capabilities=capabilities.OPERATOR,
            )
        )
        await self._socket.send_str(hello.decode())
        challenge = await self._expect(Challenge)
        nonce, theirs = challenge.nonce, challenge.capabilities
        said = auth.said(hello, theirs)
        if not auth.proves(key, "server", said, nonce, challenge.proof):
            raise ViewRefused("bad-proof", "the coordinator does not know the job's key")
        await self.send(Proof(proof=auth.proof(key, "client", said, nonce)))
        self._channel = auth.Channel.agreed(
            key, "client", said, nonce, capabilities.OPERATOR, theirs
        )
        welcome = await self._expect(Welcome)
        if welcome.coordinator_incarnation != incarnation:
            raise ViewRefused(
                "stale-incarnation",
                f"incarnation {welcome.coordinator_incarnation} answers in place of {incarnation}",
            )
        self.capabilities = theirs

    async def send(self, frame: Frame) -> None:
        """Send one frame; raises TimeoutError, OSError or aiohttp.ClientError."""
        data = encode(frame)
        async with asyncio.timeout(SEND_SECONDS):
            if self._channel is None:
                await self._socket.send_str(data.decode())
            else:
                await self._socket.send_bytes(self._channel.seal(data))

    async def receive(self) -> ViewSocketFrame | None:
        """The next frame, None for one that does not decode.

        Raises ViewError at the end of the connection, ViewRefused if that is a refusal.
        """
        message = await self._socket.receive()
        if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            raise ViewError(f"connection ended ({message.type.name})")
        data: bytes | str = message.data
        # Who is refused may not have the key, so a refusal is not sealed. It only ends the
        # connection, which whoever can forge one could do anyway.
        unsealed = isinstance(data, str)
        try:
            if self._channel is not None and not unsealed:
                data = self._channel.open(data)
            frame = self._reader.decode(data)
        except auth.BrokenSeal as error:
            raise ViewError(str(error)) from error
        except msgspec.DecodeError as error:
            metrics.VIEW_BAD_FRAMES.inc()
            self._complain(f"sent a frame that is not understood, ignored: {error}")
            return None
        if isinstance(frame, Refused):
            raise ViewRefused(frame.reason, frame.message)
        if self._channel is not None and unsealed:
            raise ViewError(f"{type(frame).__name__} without a seal")
        return frame

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()

    async def _expect[F: Frame](self, kind: type[F]) -> F:
        frame = await self.receive()
        if not isinstance(frame, kind):
            raise ViewError(f"{type(frame).__name__} where {kind.__name__} was due")
        return frame
