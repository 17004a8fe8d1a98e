"""The operator's end of the view socket, as little as the launcher suite needs of it."""

import asyncio
import socket as sockets
from collections.abc import Callable

import aiohttp

from rtj_api import auth, names
from rtj_api.messages import (
    MAX_FRAME_VIEW_BYTES,
    Challenge,
    Hello,
    JobDirective,
    JobView,
    Proof,
    Welcome,
    decode_view_socket,
    encode,
)

_RETRY_SECONDS = 0.1
# A coordinator that answers nothing for one and a half times this is lost.
_HEARTBEAT_SECONDS = 2.0


class OperatorEnd:
    """Sends the job's directive, keeps the newest view. Reconnects like the real one."""

    def __init__(self, url: str, job_uid: str, key: bytes) -> None:
        self._url = url
        self._job_uid = job_uid
        self._key = key
        self._directive: JobDirective | None = None
        self._changed = asyncio.Condition()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._cut = False
        self.view: JobView | None = None

    def cut_off(self) -> None:
        """Lose the connection for good, without a word."""
        self._cut = True
        transport = None if self._socket is None else self._socket.get_extra_info("socket")
        assert transport is not None
        transport.shutdown(sockets.SHUT_RDWR)

    @property
    def connected(self) -> bool:
        """Whether the coordinator is there, as far as the operator can tell."""
        return self._socket is not None

    async def run(self) -> None:
        """Connect for ever."""
        async with aiohttp.ClientSession() as session:
            while not self._cut:
                try:
                    await self._serve(session)
                except (aiohttp.ClientError, OSError, ConnectionError):
                    await asyncio.sleep(_RETRY_SECONDS)
                finally:
                    self._socket = None

    async def direct(self, directive: JobDirective) -> None:
        """Send now, and again on each connection."""
        self._directive = directive
        if self._socket is not None:
            await self._socket.send_str(encode(directive).decode())

    async def until(self, condition: Callable[[JobView], bool], seconds: float) -> JobView:
        """The first view that meets the condition; raises TimeoutError with the last one."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                while self.view is None or not condition(self.view):
                    await self._changed.wait()
                return self.view
        except TimeoutError:
            raise TimeoutError(f"not within {seconds} s; last view: {self.view}") from None

    async def _serve(self, session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(
            self._url, max_msg_size=MAX_FRAME_VIEW_BYTES, heartbeat=_HEARTBEAT_SECONDS
        ) as socket:
            await self._shake_hands(socket)
            self._socket = socket
            if self._directive is not None:
                await socket.send_str(encode(self._directive).decode())
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                frame = decode_view_socket(message.data)
                if isinstance(frame, JobView):
                    async with self._changed:
                        self.view = frame
                        self._changed.notify_all()
        raise ConnectionError("view socket closed")

    async def _shake_hands(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        hello = encode(
            Hello(role="operator", job_uid=self._job_uid, nonce=auth.new_nonce(), epoch=1)
        )
        await socket.send_str(hello.decode())
        challenge = decode_view_socket(await socket.receive_str())
        assert isinstance(challenge, Challenge), challenge
        assert auth.proves(self._key, "server", hello, challenge.nonce, challenge.proof)
        proof = Proof(proof=auth.proof(self._key, "client", hello, challenge.nonce))
        await socket.send_str(encode(proof).decode())
        welcome = decode_view_socket(await socket.receive_str())
        assert isinstance(welcome, Welcome), welcome


def view_url(host: str, port: int) -> str:
    """Address of a coordinator's view socket."""
    return f"ws://{host}:{port}{names.VIEW_SOCKET_PATH}"
