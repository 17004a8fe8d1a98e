"""The beat table: every worker that ever proved itself, and how fresh its word is. Pure.

A closed socket tells of a dead container in milliseconds, silence of one that is frozen or cut off.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rtj_api.messages import Beat, ExitReport, Hello, LauncherState

# A worker whose socket closed may come back this long before it counts as lost: a dropped
# connection is no dead container, and its launcher still runs.
RECONNECT_GRACE_SECONDS: Final = 0.3
# Beat intervals after which a connected worker is called silent.
MISSED_BEATS: Final = 2.0
# Workers no longer expected are remembered, so that one that thaws is told to exit; up to so many.
_MAX_FORGOTTEN: Final = 1024
_MAX_BACKOFF_SECONDS: Final = 30.0


@dataclass(slots=True, eq=False)
class Worker:
    """One worker pod. Times are monotonic seconds of this process."""

    uid: str
    name: str
    slot: int
    incarnation: int
    heard_at: float
    # Identifies the open connection; 0: none.
    connection: int = 0
    closed_at: float = 0.0
    beat: Beat | None = None
    # When the launcher's state was first heard as it is now.
    launcher_at: float = 0.0
    # Highest number of an exit report that was taken in.
    exits_seen: int = -1
    # Launchers that ended by themselves in a row, and when the last did.
    failures: int = 0
    failed_at: float = 0.0
    # Its loss was told; until it is heard again.
    lost: bool = False

    @property
    def launcher(self) -> LauncherState:
        """Its launcher as of the last beat."""
        return LauncherState() if self.beat is None else self.beat.launcher

    @property
    def terminating(self) -> bool:
        """Whether its pod is being stopped."""
        return self.beat is not None and self.beat.terminating

    def alive(self, now: float, timeout_seconds: float) -> bool:
        """Whether it is to be counted on: connected (or just cut off) and heard lately."""
        if not self.connection and now - self.closed_at > RECONNECT_GRACE_SECONDS:
            return False
        return now - self.heard_at <= timeout_seconds

    def beats(self, now: float, interval_seconds: float) -> bool:
        """Whether it is connected and has not missed two beats in a row."""
        return bool(self.connection) and now - self.heard_at <= MISSED_BEATS * interval_seconds

    def launched(self, run: int, position: int, launch: int) -> bool:
        """Whether its launcher is, or last was, exactly this one."""
        state = self.launcher
        return (state.run, state.position, state.launch) == (run, position, launch)

    def rested(self, now: float) -> bool:
        """Whether it may get a launcher again: at once the first time, later and later after."""
        if not self.failures:
            return True
        pause = min(_MAX_BACKOFF_SECONDS, 2.0 ** (self.failures - 1) - 1.0)
        return now - self.failed_at >= pause


class WorkerTable:
    """All workers by pod UID."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, uid: str) -> Worker | None:
        """The worker of that pod."""
        return self._workers.get(uid)

    def newest_incarnation(self, slot: int) -> int:
        """Highest incarnation seen of a slot, -1 for none."""
        return max((w.incarnation for w in self if w.slot == slot), default=-1)

    def connect(self, hello: Hello, connection: int, now: float) -> Worker:
        """A worker opened a connection; an older one of the same pod is void from now on."""
        worker = self._workers.get(hello.pod_uid)
        if worker is None:
            worker = Worker(hello.pod_uid, hello.pod_name, hello.slot, hello.incarnation, now)
            self._workers[hello.pod_uid] = worker
        worker.connection = connection
        worker.heard_at = now
        return worker

    def disconnect(self, uid: str, connection: int, now: float) -> None:
        """A connection closed; nothing happens if it was replaced before."""
        worker = self._workers.get(uid)
        if worker is not None and worker.connection == connection:
            worker.connection = 0
            worker.closed_at = now

    def hear(self, uid: str, beat: Beat, now: float) -> tuple[ExitReport, ...]:
        """Take in a beat; returns the exit reports that are new with it.

        Reports in the very first beat are history that an earlier coordinator has dealt with.
        """
        worker = self._workers[uid]
        if worker.beat is None or worker.beat.launcher != beat.launcher:
            worker.launcher_at = now
        known = worker.exits_seen
        first = worker.beat is None
        worker.beat = beat
        worker.heard_at = now
        worker.lost = False
        worker.exits_seen = max([known, *(report.number for report in beat.exits)])
        if first:
            return ()
        return tuple(report for report in beat.exits if report.number > known)

    def forgive(self, seconds: float) -> None:
        """Put all silence off: it was this process that did not listen."""
        for worker in self:
            worker.heard_at += seconds
            worker.closed_at += seconds

    def forget(self, expected: Mapping[str, int]) -> None:
        """Drop the oldest of those that are neither expected nor connected, beyond a bound."""
        gone = [w for w in self if not w.connection and w.uid not in expected]
        gone.sort(key=lambda worker: worker.closed_at)
        for worker in gone[: max(0, len(gone) - _MAX_FORGOTTEN)]:
            del self._workers[worker.uid]
