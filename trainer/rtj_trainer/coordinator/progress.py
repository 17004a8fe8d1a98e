"""How far the training is, from the ranks' beats. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rtj_api.messages import RankBeat
from rtj_trainer.coordinator.table import Worker


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank is: worker, position and its last record."""

    worker: Worker
    position: int
    beat: RankBeat


@dataclass(slots=True)
class Progress:
    """Kept over the coordinator's life; `survey` brings it up to date."""

    # Lowest completed step over the ranks in training; -1 unless all of them stand at one.
    step: int = -1
    highest_step: int = -1
    # When the ranks last were elsewhere (monotonic seconds): after a restart they move long before
    # the step is new. A rank that ends moves nothing: it may be the one that stood still.
    moved_at: float = 0.0
    # The same, as of before the present in-process iteration began.
    stood_since: float = 0.0
    checkpoint_step: int = -1
    ranks_training: int = 0
    # All ranks of all positions live in the same round.
    complete: bool = False
    round: int = -1
    # In-process iteration of the present round's processes.
    iteration: int = 0
    # When the newest step that all ranks made together was complete (monotonic seconds, as the
    # ranks tell it, however late it was heard); None: no step was seen.
    stepped_at: float | None = None
    # Whether the present round, and its present in-process iteration, have made a step: one beyond
    # that at which they began, as a step that was loaded is not made.
    round_stepped: bool = False
    iteration_stepped: bool = False
    # The same of the iteration before the present one.
    stepped_before: bool = False
    _began: bool = False
    _stands: int = -1
    # This coordinator has not seen all ranks at a step yet; lowest step that it found, and when it
    # was complete.
    _new: bool = True
    _found: tuple[int, float] | None = None
    # (position, local rank) that said so in the newest round.
    done: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    saved: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def survey(self, places: Sequence[Place], ranks: int, now: float) -> None:
        """Take in all ranks of the position holders; `ranks`: how many there should be."""
        stood = (self.round, self.iteration, self.step, self.complete)
        newest = max((place.beat.round for place in places), default=-1)
        if newest != self.round:
            self.round, self.iteration = newest, 0
            self.done.clear()
            self.saved.clear()
        here = [place for place in places if place.beat.round == newest]
        self._mark(here)
        # Who is cut off cannot say that a process has ended since.
        living = [p.beat for p in here if p.beat.alive and p.worker.connection]
        self.ranks_training = len(living)
        self.complete = len(living) == ranks > 0
        self.step = min((beat.step for beat in living), default=-1)
        self.iteration = max([self.iteration, *(place.beat.iteration for place in here)])
        self._grow(place.beat for place in here)
        if (self.round, self.iteration) != stood[:2]:
            self._begin_life(same_round=self.round == stood[0])
        together = all(p.beat.iteration == self.iteration for p in here)
        self._note_step([p for p in here if p.beat.alive], together, now)
        if self.complete and stood != (self.round, self.iteration, self.step, True):
            if self.iteration != stood[1]:
                self.stood_since = self.moved_at
            self.moved_at = now

    def find(self, ranks: Sequence[RankBeat], now: float) -> None:
        """Take in the ranks of a worker's first beat, whatever their run.

        A coordinator that takes over a job begins a new run, but time is lost since the last step
        of the old one.
        """
        self._grow(ranks)
        for rank in ranks if self._new else ():
            # The record tells of its step from then on at the latest.
            found = (rank.step, now - rank.age_seconds)
            if rank.step < 0 or (self._found is not None and rank.step > self._found[0]):
                continue
            if self._found is not None and rank.step == self._found[0]:
                found = max(found, self._found)
            self._found, self.stepped_at = found, found[1]

    def note(self, beats: Iterable[RankBeat], now: float) -> None:
        """Take in what ranks say to a standby coordinator, which knows no positions."""
        before = self.highest_step
        self._grow(beats)
        if self.highest_step > before:
            self.moved_at = now

    def new_run(self, now: float) -> None:
        """Rounds count from 0 again."""
        self.round, self.iteration = -1, 0
        self._begin_life(same_round=False)
        self.done.clear()
        self.saved.clear()
        self.step, self.ranks_training, self.complete = -1, 0, False
        self.moved_at = now

    def forget(self, position: int) -> None:
        """The position's processes are of the past, with the marks they left."""
        self.done = {mark for mark in self.done if mark[0] != position}
        self.saved = {mark for mark in self.saved if mark[0] != position}

    def _begin_life(self, *, same_round: bool) -> None:
        self.stepped_before = same_round and self.iteration_stepped
        self.round_stepped = same_round and self.round_stepped
        self.iteration_stepped, self._began, self._stands = False, False, -1

    def _note_step(self, living: Sequence[Place], together: bool, now: float) -> None:
        """Find out whether, and when, all ranks made another step."""
        if self.step < 0:
            self._began = self._began or bool(living)
            return
        if not (self.complete and together):
            return
        if self._stands >= 0 and self.step > self._stands:
            lowest = (place for place in living if place.beat.step == self.step)
            at = min(now, max(place.worker.heard_at - place.beat.age_seconds for place in lowest))
            self.stepped_at = at if self.stepped_at is None else max(self.stepped_at, at)
            self.round_stepped = self.iteration_stepped = True
        elif self._new and not self._began:
            # Ranks that stood at a step when they were first heard had made it.
            self.round_stepped = self.iteration_stepped = True
        self._began, self._new, self._stands = True, False, self.step

    def _mark(self, places: Iterable[Place]) -> None:
        for place in places:
            key = (place.position, place.beat.local_rank)
            if place.beat.done:
                self.done.add(key)
            if place.beat.saved:
                self.saved.add(key)

    def _grow(self, beats: Iterable[RankBeat]) -> None:
        for beat in beats:
            self.checkpoint_step = max(self.checkpoint_step, beat.checkpoint_step)
            self.highest_step = max(self.highest_step, beat.step)


def odd_one_out(places: Sequence[Place]) -> Place | None:
    """Of ranks that all stand still, the one that the others wait for; None when it is unclear.

    That is the only one at the lowest step; or, all being at one step, the only one that is in
    another phase than all others (phases are recorded before each collective, see names of phases
    in rtj_trainer). Two ranks in two phases accuse each other: nobody is blamed.
    """
    if len(places) < 2:
        return None
    lowest = min(place.beat.step for place in places)
    behind = [place for place in places if place.beat.step == lowest]
    if len(behind) < len(places):
        return behind[0] if len(behind) == 1 else None
    by_phase: dict[str, list[Place]] = {}
    for place in places:
        by_phase.setdefault(place.beat.phase, []).append(place)
    alone = [group[0] for group in by_phase.values() if len(group) == 1]
    return alone[0] if len(by_phase) == 2 and len(alone) == 1 else None
