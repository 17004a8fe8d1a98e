"""Counts restarts, and finds who raised what NVRx's in-process restart answered. Pure.

A restart of the round counts once when the round closes, an in-process one once when any rank
enters the next iteration, however many ranks take part.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from rtj_trainer.coordinator.memory import Counts
from rtj_trainer.coordinator.progress import Place

# The worker of the rank that raised may beat a little later than one that has re-entered already.
_NAME_SECONDS: Final = 0.5
_MAX_ERRORS: Final = 64


@dataclass(frozen=True, slots=True)
class InProcessRestart:
    """An iteration that ended; `place` is the rank that raised first, None if none did (NVRx
    ended it for silence)."""

    iteration: int
    place: Place | None
    # When the exception was first heard of, or when the next iteration was.
    seen_at: float


class RestartWatch:
    """Counters and what is pending; monotonic seconds."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        # First to raise, by the iteration that it ended, of the newest round.
        self._errors: dict[int, tuple[Place, float]] = {}
        self._pending: dict[int, float] = {}

    def new_run(self, run: int) -> None:
        """Rounds count from 0 again."""
        if run != self.counts.run:
            self.counts = replace(self.counts, run=run, round=-1, ranks_round=-1, iteration=0)
            self._errors.clear()
            self._pending.clear()

    def see_round(self, closed: int) -> None:
        """The highest closed round of the run."""
        known = self.counts.round
        if closed > known:
            grown = closed - max(known, 0)
            self.counts = replace(self.counts, round=closed, in_job=self.counts.in_job + grown)

    def see_errors(self, places: Iterable[Place], now: float) -> None:
        """Note the first to raise in each iteration; call with each beat, in order of arrival."""
        for place in places:
            beat = place.beat
            if beat.round == self.counts.ranks_round and beat.error and beat.error_iteration >= 0:
                self._errors.setdefault(beat.error_iteration, (place, now))
        while len(self._errors) > _MAX_ERRORS:
            del self._errors[min(self._errors)]

    def see_ranks(self, ranks_round: int, iteration: int, now: float) -> None:
        """Round and highest iteration of the present processes."""
        counts = self.counts
        if ranks_round < 0:
            # No ranks are known, so none are known to be new: a restarted coordinator hears of the
            # old ones later, and must not count their iterations again.
            return
        if ranks_round != counts.ranks_round:
            self.counts = counts = replace(counts, ranks_round=ranks_round, iteration=0)
            self._errors.clear()
            self._pending.clear()
        for ended in range(counts.iteration, iteration):
            self._pending[ended] = now
        if iteration > counts.iteration:
            more = counts.in_process + iteration - counts.iteration
            self.counts = replace(counts, iteration=iteration, in_process=more)

    def ended(self, now: float) -> list[InProcessRestart]:
        """Restarts whose cause is known by now, or will not be."""
        found: list[InProcessRestart] = []
        for iteration, since in sorted(self._pending.items()):
            place, seen_at = self._errors.get(iteration, (None, since))
            if place is not None or now - since > _NAME_SECONDS:
                found.append(InProcessRestart(iteration, place, seen_at))
        for restart in found:
            del self._pending[restart.iteration]
        return found
