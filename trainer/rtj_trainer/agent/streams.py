"""Passes on what launcher and training processes print, and remembers their last words.

One thread per stream: a slow reader of the container's log then holds up the writer, as it would
without us, and never the agent's event loop.
"""

import array
import asyncio
import fcntl
import os
import sys
import termios
import threading
import time
from collections import deque
from typing import Final

TAIL_LINES: Final = 20
# A longer line is passed on in pieces.
_MAX_LINE_BYTES: Final = 16 * 1024
_POLL_SECONDS: Final = 0.01


class Stream:
    """One pipe: its writing end for a child, its lines passed on behind a prefix."""

    def __init__(self, prefix: str) -> None:
        self._reader, self.writer = os.pipe()
        self._prefix = prefix.encode()
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._read_all = threading.Event()
        threading.Thread(target=self._pass_on, name=f"stream {prefix}", daemon=True).start()

    def close_writer(self) -> None:
        """Once the child has its copy; the stream ends when all copies are closed."""
        os.close(self.writer)

    def forget(self) -> None:
        """Start a new tail: another process writes from here on."""
        self._lines.clear()

    def tail(self, limit: int) -> str:
        """The last lines, at most `limit` characters of them, the end kept."""
        text = b"".join(tuple(self._lines)).decode(errors="replace").rstrip()
        return text[-limit:]

    async def settle(self, seconds: float) -> None:
        """Wait until what is in the pipe now was read, or the time is over."""
        deadline = time.monotonic() + seconds
        # A pipe does not tell when it runs empty.
        while self._pending() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    def _pending(self) -> bool:
        if self._read_all.is_set():
            return False
        count = array.array("i", [0])
        try:
            fcntl.ioctl(self._reader, termios.FIONREAD, count)
        except OSError:
            return False
        return count[0] > 0

    def _pass_on(self) -> None:
        with open(self._reader, "rb", closefd=False) as pipe:
            while line := pipe.readline(_MAX_LINE_BYTES):
                self._lines.append(line)
                _write(self._prefix + line if line.endswith(b"\n") else self._prefix + line + b"\n")
        self._read_all.set()
        os.close(self._reader)


def _write(data: bytes) -> None:
    try:
        os.write(sys.stdout.fileno(), data)
    except OSError:
        # Nobody reads the container's log; the writers must go on all the same.
        return
