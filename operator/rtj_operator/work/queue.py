"""Which jobs to look at: each key once, one pass per key at a time, later or sooner.

An addition during a pass is kept and gives one more pass after it. A failing key waits longer each
time; an addition cuts that wait to at most a second, so that news is not slept over and a job that
fails at every look does not spin either. A standby's queue is closed: nobody takes from it.
"""

import asyncio
import random
from collections import deque
from typing import Final

from rtj_operator import metrics

type JobKey = tuple[str, str]

BACKOFF_FIRST_SECONDS: Final = 0.2
BACKOFF_MAX_SECONDS: Final = 30.0
# Least time between a failed pass and the next.
FAILED_PAUSE_SECONDS: Final = 1.0


class WorkQueue:
    """Keys `(namespace, name)` to reconcile. For one event loop."""

    def __init__(self) -> None:
        self._ready: deque[JobKey] = deque()
        self._ready_since: dict[JobKey, float] = {}
        self._running: dict[JobKey, float] = {}
        self._again: set[JobKey] = set()
        self._timers: dict[JobKey, asyncio.TimerHandle] = {}
        self._failures: dict[JobKey, int] = {}
        self._not_before: dict[JobKey, float] = {}
        self._wakeup = asyncio.Event()
        self._closed = False
        # When a key was last taken.
        self._taken_at = 0.0

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: JobKey) -> None:
        """Look at `key` as soon as possible."""
        if self._closed:
            return
        if key in self._running:
            self._again.add(key)
            return
        pause = self._not_before.get(key, 0.0) - _now()
        if pause > 0:
            self.add_after(key, pause)
        elif key not in self._ready_since:
            self._cancel_timer(key)
            self._ready.append(key)
            self._ready_since[key] = _now()
            metrics.QUEUE_DEPTH.set(len(self._ready))
            self._wakeup.set()

    def add_after(self, key: JobKey, seconds: float) -> None:
        """Look at `key` in `seconds` at the latest; an earlier appointment stays."""
        if self._closed:
            return
        due = _now() + seconds
        timer = self._timers.get(key)
        if key in self._ready_since or (timer is not None and timer.when() <= due):
            return
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_at(due, self._due, key)

    async def get(self) -> JobKey:
        """The next key; call `done` or `failed` after its pass."""
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        key = self._ready.popleft()
        del self._ready_since[key]
        self._cancel_timer(key)
        self._running[key] = self._taken_at = _now()
        metrics.QUEUE_DEPTH.set(len(self._ready))
        return key

    def done(self, key: JobKey, wake_after_seconds: float | None = None) -> None:
        """The pass succeeded; look again after `wake_after_seconds` or on news."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)
        self._end(key, wake_after_seconds)

    def failed(self, key: JobKey) -> float:
        """The pass failed; returns the seconds until the next."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(BACKOFF_FIRST_SECONDS * 2 ** min(count - 1, 16), BACKOFF_MAX_SECONDS)
        delay = longest * random.uniform(0.5, 1.0)
        self._not_before[key] = _now() + min(delay, FAILED_PAUSE_SECONDS)
        self._end(key, delay)
        return delay

    def interrupted(self, key: JobKey) -> None:
        """The pass was cancelled: the next leader, perhaps this process, looks again."""
        self._again.discard(key)
        self._running.pop(key, None)

    def open(self) -> None:
        """Take additions again; a new leader adds every job."""
        self._closed = False

    def close(self) -> None:
        """Forget everything, and take nothing until `open`; no pass may be under way."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for state in (self._timers, self._failures, self._not_before, self._ready_since):
            state.clear()
        self._running.clear()
        self._ready.clear()
        self._again.clear()
        metrics.QUEUE_DEPTH.set(0)

    @property
    def stuck_seconds(self) -> float:
        """How long the longest pass has run, or keys have waited without one being taken; 0 when
        idle. A long queue that moves is slow, not stuck."""
        since = list(self._running.values())
        if self._ready_since:
            since.append(max(self._taken_at, min(self._ready_since.values())))
        return _now() - min(since) if since else 0.0

    def _end(self, key: JobKey, delay: float | None) -> None:
        self._running.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        if delay is not None:
            self.add_after(key, delay)

    def _due(self, key: JobKey) -> None:
        self._timers.pop(key, None)
        self._not_before.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: JobKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
