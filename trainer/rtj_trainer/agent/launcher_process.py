"""One launcher process: prepared (imported, waiting), then running one launch.

Owns its pipes. What the launcher says comes out as events; how it ended stands in `ended`.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from rtj_api.messages import MAX_TEXT
from rtj_trainer.agent.streams import Stream
from rtj_trainer.nvrx.launcher_events import (
    ENV_AGENT_PID,
    ENV_EVENTS_FD,
    ENV_RANK_STDIO,
    MAX_EVENT_BYTES,
    Joining,
    LauncherEvent,
    Order,
    RankFailed,
    Ready,
    decode_event,
    encode,
)

_MODULE = "rtj_trainer.nvrx.launcher"
_LAST_EVENTS_SECONDS = 0.2
_TAIL_SECONDS = 0.2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Streams:
    """Standard output and error of the launcher (one pipe) and of its ranks (two each)."""

    own: Stream
    outputs: dict[int, Stream]
    errors: dict[int, Stream]

    @classmethod
    def open(cls, processes: int) -> "_Streams":
        prefixes = {n: f"[local rank {n}] " for n in range(processes)}
        return cls(
            own=Stream("[launcher] "),
            outputs={n: Stream(prefix) for n, prefix in prefixes.items()},
            errors={n: Stream(prefix) for n, prefix in prefixes.items()},
        )

    def of_ranks(self) -> tuple[int, ...]:
        return tuple(s.writer for s in (*self.outputs.values(), *self.errors.values()))

    def variable(self) -> str:
        pairs = ((n, self.outputs[n].writer, self.errors[n].writer) for n in self.errors)
        return ",".join(f"{n}:{output}:{error}" for n, output, error in pairs)

    def close_writers(self) -> None:
        for stream in (self.own, *self.outputs.values(), *self.errors.values()):
            stream.close_writer()

    def forget_tails(self) -> None:
        for stream in self.errors.values():
            stream.forget()


@dataclass(frozen=True, slots=True)
class _Events:
    """The reading end of the launcher's events."""

    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport

    @classmethod
    async def open(cls, descriptor: int) -> "_Events":
        reader = asyncio.StreamReader(limit=2 * MAX_EVENT_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        return cls(reader, transport)


class LauncherProcess:
    """Made by `start`; given its order at most once."""

    def __init__(
        self, process: asyncio.subprocess.Process, events: "_Events", streams: "_Streams"
    ) -> None:
        self._process = process
        self._events = events
        self._streams = streams
        # Of each rank's newest failure.
        self._words: dict[int, asyncio.Task[str]] = {}
        self.ready = False
        # The exit code once the last event was passed on; negative: ended by that signal.
        self.ended: int | None = None

    @classmethod
    async def start(cls, processes: int) -> "LauncherProcess":
        """Start one for that many local ranks; it imports by itself, which takes seconds."""
        streams = _Streams.open(processes)
        reader, writer = os.pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=streams.own.writer,
            stderr=streams.own.writer,
            start_new_session=True,
            pass_fds=(writer, *streams.of_ranks()),
            env={
                # What ranks print shows at once, and before their last words.
                "PYTHONUNBUFFERED": "1",
                **os.environ,
                ENV_AGENT_PID: str(os.getpid()),
                ENV_EVENTS_FD: str(writer),
                ENV_RANK_STDIO: streams.variable(),
            },
        )
        os.close(writer)
        streams.close_writers()
        return cls(process, await _Events.open(reader), streams)

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self._process.pid

    async def order(self, order: Order) -> None:
        """Launch; taken up as soon as the process is ready. A dead process shows in `follow`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(order))
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return

    def kill(self) -> None:
        """SIGKILL this process alone."""
        self._process.kill()

    async def follow(self, handle: Callable[[LauncherEvent], None]) -> None:
        """Pass on events until the process has ended; `ended` then has its exit code."""
        reading = asyncio.create_task(self._read(handle))
        try:
            code = await self._process.wait()
            # Its last events are in the pipe; orphans may hold the pipe open for longer.
            await asyncio.wait([reading], timeout=_LAST_EVENTS_SECONDS)
            self.ended = code
        finally:
            reading.cancel()
            self._events.transport.close()

    async def _read(self, handle: Callable[[LauncherEvent], None]) -> None:
        while line := await self._events.reader.readline():
            try:
                event = decode_event(line)
            except msgspec.DecodeError as error:
                _log.warning("launcher %d: event not understood: %s", self.pid, error)
                continue
            if isinstance(event, RankFailed):
                words = self._last_words(event.local_rank)
                self._words[event.local_rank] = asyncio.create_task(words)
            if isinstance(event, Joining):
                # No rank lives now; one that fails at once does so before it is told as started.
                # Failures are often read in one go with it, so their last words come first.
                await asyncio.gather(*self._words.values())
                self._streams.forget_tails()
            if isinstance(event, Ready):
                self.ready = True
                for left in event.unpatched:
                    _log.warning("NVRx keeps a fixed wait, recoveries take longer: %s", left)
            handle(event)

    def tail(self, limit: int) -> str:
        """The launcher's last lines."""
        return self._streams.own.tail(limit)

    async def rank_tail(self, local_rank: int) -> str:
        """The last lines of standard error of a rank that failed: at most MAX_TEXT characters."""
        words = self._words.get(local_rank)
        return "" if words is None else await words

    async def _last_words(self, local_rank: int) -> str:
        """Those still in the pipe included."""
        stream = self._streams.errors.get(local_rank)
        if stream is None:
            return ""
        await stream.settle(_TAIL_SECONDS)
        return stream.tail(MAX_TEXT)
