"""Passes on what launcher and training processes print, and remembers their last words.

One thread per stream: a slow reader of the container's log then holds up the writer, as it would
without us, and never the agent's event loop.
"""

import array
import asyncio
import fcntl
import os
import select
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

TAIL_LINES: Final = 20
# A longer line is passed on in pieces.
_MAX_LINE_BYTES: Final = 16 * 1024
_READ_BYTES: Final = 64 * 1024
_POLL_SECONDS: Final = 0.01


class Stream:
    """One pipe: its writing end for a child, its lines passed on behind a prefix."""

    def __init__(self, prefix: str) -> None:
        self._reader, self.writer = os.pipe()
        self._prefix = prefix.encode()
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._rest = b""
        # Of lines and rest; never held while writing, which a slow reader of the log may stop.
        self._words = threading.Lock()
        self._ended = False
        # Held from reading to remembering, so that nothing is ever in neither place.
        self._turn = threading.Lock()
        threading.Thread(target=self._pass_on, name=f"stream {prefix}", daemon=True).start()

    def close_writer(self) -> None:
        """Once the child has its copy; the stream ends when all copies are closed."""
        os.close(self.writer)

    def forget(self) -> None:
        """Start a new tail: another process writes from here on.

        An unfinished line ends here, or the next process would go on with it.
        """
        with self._words:
            rest, self._rest = self._rest, b""
            self._lines.clear()
        if rest:
            self._write([rest])

    def tail(self, limit: int) -> str:
        """The last lines, at most `limit` characters of them, the end kept.

        An unfinished line is one of them: last words often come without a newline.
        """
        with self._words:
            lines = (*self._lines, self._rest)
        text = b"\n".join(lines).decode(errors="replace").rstrip()
        if len(text) <= limit:
            return text
        end = text[-limit:]
        return end.partition("\n")[2] or end

    async def settle(self, seconds: float) -> None:
        """Wait until what is in the pipe now was read, or the time is over."""
        deadline = time.monotonic() + seconds
        # A pipe does not tell when it runs empty.
        while self._pending() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    def _pending(self) -> bool:
        """Whether something is in the pipe, or was taken out and is not in the tail yet."""
        if not self._turn.acquire(blocking=False):
            return True
        try:
            return not self._ended and _readable_bytes(self._reader) > 0
        finally:
            self._turn.release()

    def _pass_on(self) -> None:
        while not self._ended:
            select.select([self._reader], [], [])
            with self._turn:
                data = os.read(self._reader, _READ_BYTES)
                self._take(data)
                if not data:
                    self._ended = True
                    os.close(self._reader)

    def _take(self, data: bytes) -> None:
        with self._words:
            *lines, self._rest = (self._rest + data).split(b"\n")
            if self._rest and (not data or len(self._rest) > _MAX_LINE_BYTES):
                lines.append(self._rest)
                self._rest = b""
            self._lines.extend(lines)
        if lines:
            self._write(lines)

    def _write(self, lines: Iterable[bytes]) -> None:
        _write(b"".join(self._prefix + line + b"\n" for line in lines))


def _readable_bytes(descriptor: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def _write(data: bytes) -> None:
    try:
        os.write(sys.stdout.fileno(), data)
    except OSError:
        # Nobody reads the container's log; the writers must go on all the same.
        return
