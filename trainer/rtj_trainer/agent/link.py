"""The agent's socket to the coordinator: proves who it is, sends beats, takes directives.

The server must prove that it knows the job's key before this side proves anything, and the key
itself is never sent. The link reconnects for ever; training goes on meanwhile. `lease_age` says how
fresh the coordinator's word is: it counts from the sending of the newest ping that was answered, so
that an answer that was long under way cannot pass for a fresh one. `silent_seconds` counts from
the newest sign of life, frame or answered ping: what a standby is told of the coordinator.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import aiohttp
import msgspec

from rtj_api import auth, capabilities, names
from rtj_api.messages import (
    MAX_FRAME_WORKER_BYTES,
    WORKER_SOCKET,
    Beat,
    Challenge,
    Frame,
    Hello,
    Proof,
    Refused,
    Welcome,
    WorkerDirective,
    WorkerSocketFrame,
    encode,
)
from rtj_api.tolerant import Reader
from rtj_trainer.agent.addresses import Addresses, bracketed
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.metrics import AgentMetrics

# With the pauses between attempts short enough that a worker whose network came back is connected
# within 2 s: an attempt that began before sends its next packet a second later only. Once there is
# a connection, a coordinator that a thousand workers come back to may take its time.
CONNECT_SECONDS: Final = 1.0
_HANDSHAKE_SECONDS: Final = 5.0
_SEND_SECONDS: Final = 5.0
_BACKOFF_MIN_SECONDS: Final = 0.1
_BACKOFF_MAX_SECONDS: Final = 0.5
_REFUSED_SECONDS: Final = (1.0, 2.0)
# Beats that report a change are not closer together than this.
_GAP_SECONDS: Final = 0.1
# Beat intervals without any frame from the coordinator after which the link connects anew.
_SILENT_INTERVALS: Final = 5
_COMPLAIN_SECONDS: Final = 60.0
_log = logging.getLogger(__name__)


class LinkError(Exception):
    """The connection cannot be used; another one is tried."""


class WasRefused(LinkError):
    """The coordinator turned this worker away, and may do so again until the pod is replaced."""


class Link:
    """Keeps one authenticated connection; see the module."""

    def __init__(
        self,
        config: AgentConfig,
        metrics: AgentMetrics,
        beat: Callable[[], Beat],
        direct: Callable[[WorkerDirective], None],
        hosts: Sequence[str] = (),
        admit: Callable[[int], str] = lambda incarnation: "",
    ) -> None:
        """`hosts`: where the coordinator may be, tried in turn; by default its Service. `admit`
        says why a coordinator of an incarnation must not be linked to, "" when it may."""
        self._config = config
        self._metrics = metrics
        self._beat = beat
        self._direct = direct
        self._changed = asyncio.Event()
        self._sent = asyncio.Event()
        # Seconds between beats that report no change.
        self.interval = 1.0
        # Of the coordinator that was met last; -1: none yet.
        self.incarnation = -1
        self.connected = False
        self._leased = float("-inf")
        # What the coordinator of the newest connection announced.
        self.capabilities: tuple[str, ...] = ()
        self._heard = float("-inf")
        self._refused = float("-inf")
        self._complaint, self._complained = "", float("-inf")
        self._admit = admit
        self._hosts = [Addresses(host) for host in hosts or (config.coordinator_host,)]
        self._address = ""

    @property
    def lease_age(self) -> float:
        """Seconds since the coordinator was last known to hear and answer; inf before that."""
        return time.monotonic() - self._leased

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last sign of life, also of a connection that has ended; inf before."""
        return time.monotonic() - self._heard

    @property
    def absent_age(self) -> float:
        """Seconds since the coordinator's host last said that nobody listens there; inf before."""
        return time.monotonic() - self._refused

    def also_at(self, host: str) -> None:
        """The coordinator may be there too."""
        self._hosts.append(Addresses(host))

    def forgive(self, seconds: float) -> None:
        """Ignore time during which this process was paused: signs of life wait to be read."""
        self._heard += seconds

    def changed(self) -> None:
        """There is something to tell; send a beat soon."""
        self._changed.set()

    async def flush(self, seconds: float) -> bool:
        """Send a beat now; whether one went out in time."""
        self._sent.clear()
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                await self._sent.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Connect and serve for ever."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        backoff = _BACKOFF_MIN_SECONDS
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                started = time.monotonic()
                wait = backoff * random.uniform(0.5, 1.0)
                try:
                    await self._serve_once(session)
                except WasRefused as refusal:
                    self._metrics.refusals.inc()
                    self._complain(str(refusal))
                    wait = random.uniform(*_REFUSED_SECONDS)
                except (LinkError, aiohttp.ClientError, OSError, TimeoutError) as error:
                    self._note_refusal(error)
                    self._complain(str(error) or type(error).__name__)
                except Exception:
                    # Training goes on without the coordinator, and without whatever this was.
                    _log.exception("%s: trying again", self._url)
                # Another host next time: this one may be of the past.
                self._hosts.append(self._hosts.pop(0))
                served = time.monotonic() - started > _HANDSHAKE_SECONDS
                backoff = _BACKOFF_MIN_SECONDS if served else min(backoff * 2, _BACKOFF_MAX_SECONDS)
                await asyncio.sleep(wait)

    @property
    def _url(self) -> str:
        host = bracketed(self._address or self._config.coordinator_host)
        return f"ws://{host}:{self._config.worker_port}{names.WORKER_SOCKET_PATH}"

    def _note_refusal(self, error: BaseException) -> None:
        refused = error.__cause__ if isinstance(error, aiohttp.ClientError) else error
        if isinstance(refused or error, ConnectionRefusedError):
            self._refused = time.monotonic()

    def _complain(self, text: str) -> None:
        """Say once a minute, or when it is another, why there is no connection."""
        now = time.monotonic()
        if text != self._complaint or now - self._complained > _COMPLAIN_SECONDS:
            _log.warning("%s: %s; trying again", self._url, text)
            self._complaint, self._complained = text, now

    async def _serve_once(self, session: aiohttp.ClientSession) -> None:
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            addresses = await self._hosts[0].newest()
            self._address = random.choice(addresses)
            socket = await session.ws_connect(
                self._url, max_msg_size=MAX_FRAME_WORKER_BYTES, compress=0, autoping=False
            )
        async with socket:
            connection = Connection(socket)
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                proved = time.monotonic()
                welcome = await self._shake_hands(connection)
            refusal = self._admit(welcome.coordinator_incarnation)
            if refusal:
                raise LinkError(refusal)
            self.incarnation = welcome.coordinator_incarnation
            self._leased, self._heard = proved, time.monotonic()
            self._metrics.connects.inc()
            _log.info("connected to %s, incarnation %d", self._url, self.incarnation)
            self.connected = True
            try:
                await self._serve(connection)
            finally:
                self.connected = False

    async def _serve(self, connection: "Connection") -> None:
        """Send and receive until either fails; raises what it failed with."""
        tasks = [
            asyncio.create_task(work)
            for work in (self._send_beats(connection), self._receive(connection))
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _shake_hands(self, connection: "Connection") -> Welcome:
        hello = encode(self._hello())
        await connection.send(hello)
        challenge = await connection.expect(Challenge)
        key, nonce, theirs = self._config.key, challenge.nonce, challenge.capabilities
        said = auth.said(hello, theirs)
        if not auth.proves(key, "server", said, nonce, challenge.proof):
            raise LinkError("the server does not prove that it knows the job's key")
        await connection.send(encode(Proof(proof=auth.proof(key, "client", said, nonce))))
        connection.channel = auth.Channel.agreed(
            key, "client", said, nonce, capabilities.AGENT, theirs
        )
        welcome = await connection.expect(Welcome)
        self.capabilities = theirs
        return welcome

    def _hello(self) -> Hello:
        config = self._config
        return Hello(
            role="worker",
            job_uid=config.job_uid,
            nonce=auth.new_nonce(),
            pod_uid=config.pod_uid,
            pod_name=config.pod_name,
            slot=config.slot,
            incarnation=config.incarnation,
            capabilities=capabilities.AGENT,
        )

    async def _send_beats(self, connection: "Connection") -> NoReturn:
        while True:
            self._changed.clear()
            await connection.send(encode(self._beat()))
            await connection.ping()
            self._metrics.beats.inc()
            self._sent.set()
            await asyncio.sleep(_GAP_SECONDS)
            try:
                async with asyncio.timeout(max(0.0, self.interval - _GAP_SECONDS)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _receive(self, connection: "Connection") -> NoReturn:
        while True:
            silence = max(_HANDSHAKE_SECONDS, _SILENT_INTERVALS * self.interval)
            async with asyncio.timeout(silence):
                frame = await connection.receive()
            self._leased = max(self._leased, connection.answered)
            self._heard = time.monotonic()
            if isinstance(frame, WorkerDirective):
                self.interval = frame.beat_interval_seconds
                self._direct(frame)
            elif isinstance(frame, Refused):
                raise WasRefused(f"{frame.reason}: {frame.message}")


class Connection:
    """Frames over one WebSocket. A frame that does not decode is told once and skipped."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._complained = False
        self._reader = Reader(WORKER_SOCKET, _tell_newer)
        # Once agreed on: what is received must be sealed, what is sent is.
        self.channel: auth.Channel | None = None
        # time.monotonic() of the sending of the newest ping that was answered.
        self.answered = float("-inf")

    async def send(self, data: bytes) -> None:
        """Send one encoded frame."""
        async with asyncio.timeout(_SEND_SECONDS):
            if self.channel is None:
                await self._socket.send_str(data.decode())
            else:
                await self._socket.send_bytes(self.channel.seal(data))

    async def ping(self) -> None:
        """Ask for an answer that carries the time of this question."""
        async with asyncio.timeout(_SEND_SECONDS):
            await self._socket.ping(repr(time.monotonic()).encode())

    async def expect[F: Frame](self, kind: type[F]) -> F:
        """The next frame, of this kind; raises WasRefused or LinkError."""
        while (frame := await self.receive()) is None:
            continue
        if isinstance(frame, Refused):
            raise WasRefused(f"{frame.reason}: {frame.message}")
        if not isinstance(frame, kind):
            raise LinkError(f"{type(frame).__name__} where {kind.__name__} was due")
        return frame

    async def receive(self) -> WorkerSocketFrame | None:
        """The next frame; None for pings, pongs and nonsense. Raises LinkError at the end."""
        message = await self._socket.receive()
        match message.type:
            case aiohttp.WSMsgType.TEXT | aiohttp.WSMsgType.BINARY:
                return self._decode(message.data)
            case aiohttp.WSMsgType.PING:
                await self._socket.pong(message.data)
            case aiohttp.WSMsgType.PONG:
                self._note_pong(message.data)
            case _:
                raise LinkError(f"connection ended ({message.type.name} {message.extra or ''})")
        return None

    def _decode(self, data: bytes | str) -> WorkerSocketFrame | None:
        # Who is refused may not have the key, so a refusal is not sealed. It only ends the
        # connection, which whoever can forge one could do anyway.
        unsealed = isinstance(data, str)
        try:
            if self.channel is not None and not unsealed:
                data = self.channel.open(data)
            frame = self._reader.decode(data)
        except auth.BrokenSeal as error:
            raise LinkError(str(error)) from error
        except msgspec.DecodeError as error:
            if not self._complained:
                self._complained = True
                _log.warning("frame from the coordinator not understood, ignored: %s", error)
            return None
        if self.channel is not None and unsealed and not isinstance(frame, Refused):
            raise LinkError(f"{type(frame).__name__} without a seal")
        return frame

    def _note_pong(self, data: bytes) -> None:
        try:
            sent = float(data)
        except ValueError:
            return
        if sent <= time.monotonic():
            self.answered = max(self.answered, sent)


def _tell_newer(text: str) -> None:
    _log.info("the coordinator %s", text)
