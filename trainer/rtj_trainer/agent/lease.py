"""How long ranks may live on without a word of the coordinator. Pure.

A position can be given away behind this worker's back only by a coordinator that lives and does not
hear it, or by a standby that took over without it. Each of these proves that it was not:

- the coordinator obeyed has answered (it would say so itself),
- its host says that nobody listens there: it is being restarted, and gives nothing away,
- the ranks completed a step, in a job of more than one position: a step needs the ranks of all
  positions, and those of the next holder belong to another rendezvous.

Without any of them for the length of the lease the ranks must end, told or not. So a job whose
coordinator and operator are both away trains on, and a worker that was cut off does not: its ranks
wait for peers that have left them. With a single position a step proves nothing.
"""

from collections.abc import Sequence
from typing import Final

from rtj_api.messages import RankBeat, WorkerDirective

# Added to two beat timeouts. A standby speaks sooner; a coordinator that stands still is restarted
# by its kubelet within 20 s, and its job is not to suffer for that.
_PATIENCE_SECONDS: Final = 15.0
# An evaluation or a save between two steps may take as long again as the longest so far did.
_STEP_FACTOR: Final = 2.0


class Lease:
    """Monotonic seconds."""

    def __init__(self) -> None:
        self._proved_at = 0.0
        self._launch: tuple[int, int, int] | None = None
        self._step = -1
        self._stepped_at: float | None = None
        self._longest_step_seconds = 0.0

    def renew(self, age_seconds: float, now: float) -> None:
        """Something proved this long ago that the position is still held."""
        self._proved_at = max(self._proved_at, now - age_seconds)

    def forgive(self, seconds: float) -> None:
        """Ignore time during which this process was paused."""
        self._proved_at += seconds

    def begin(self, launch: tuple[int, int, int] | None, now: float) -> None:
        """The launch that is to run now; another one begins a lease of its own."""
        if launch == self._launch:
            return
        self._launch = launch
        self._proved_at = now
        self._step, self._stepped_at, self._longest_step_seconds = -1, None, 0.0

    def watch(self, ranks: Sequence[RankBeat], nodes: int, now: float) -> None:
        """Look at the ranks as they are now."""
        step = min((rank.step for rank in ranks if rank.alive), default=-1)
        if step > self._step >= 0 and self._stepped_at is not None:
            took = now - self._stepped_at
            self._longest_step_seconds = max(self._longest_step_seconds, took)
        if step != self._step and step >= 0:
            self._stepped_at = now
            if nodes > 1:
                self._proved_at = max(self._proved_at, now)
        self._step = step

    def lapsed_seconds(self, directive: WorkerDirective, now: float) -> float | None:
        """For how long nothing has proved that the position is still held; None while within the
        lease."""
        if self._launch is None:
            return None
        length = 2 * directive.beat_timeout_seconds + _PATIENCE_SECONDS
        length = max(length, _STEP_FACTOR * self._longest_step_seconds)
        unproved = now - self._proved_at
        return unproved if unproved > length else None
