"""The training processes of this pod as the coordinator shall see them.

The launcher says which processes a round has, the kernel says when one is dead (pidfd: at once),
and each process says in shared memory how far it is. What a rank said last is kept after its end:
done and saved marks decide how the run ends.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from rtj_api.messages import RankBeat
from rtj_trainer.beats import BeatReader, BeatRecord
from rtj_trainer.beats.record import record_paths
from rtj_trainer.nvrx.launcher_events import RanksFinished, Started


@dataclass(slots=True)
class _Rank:
    """One training process of the present or the last round."""

    local_rank: int
    rank: int
    pid: int
    started: float
    alive: bool = True
    # Ended with exit code 0, as all its siblings did.
    finished: bool = False
    record: BeatRecord | None = None
    pidfd: int = -1
    # First step seen of this process, once it says one: where it resumed.
    resumed_step: int | None = None


class RankTable:
    """Ranks of the present launch; `changed` is called when one dies."""

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self._folder = folder
        self._reader = BeatReader(folder)
        self._changed = changed
        self._ranks: dict[int, _Rank] = {}
        self._run = 0
        self._round = 0

    @property
    def round(self) -> int:
        """Rendezvous round of the ranks held."""
        return self._round

    def new_launch(self, run: int) -> None:
        """Forget everything, old records too: only while no training process lives."""
        self._forget()
        self._run = run
        for path in record_paths(self._folder):
            path.unlink(missing_ok=True)

    def started(self, event: Started) -> None:
        """The launcher started the processes of a round."""
        self._forget()
        self._round = event.round
        now = time.monotonic()
        for local_rank, (rank, pid) in sorted(event.ranks.items()):
            self._ranks[local_rank] = self._watch(_Rank(local_rank, rank, pid, now))

    def finished(self, event: RanksFinished) -> None:
        """The launcher saw all processes of a round end with exit code 0."""
        if event.round == self._round:
            self.refresh()
            for rank in self._ranks.values():
                rank.finished = True

    def close(self) -> None:
        """Stop watching; what the ranks said last stays."""
        for rank in self._ranks.values():
            self._end(rank)

    def refresh(self) -> None:
        """Take in what the ranks have written since."""
        for record in self._reader.read():
            rank = self._ranks.get(record.local_rank)
            if rank and record.run == self._run and record.round == self._round:
                rank.record = record
                if rank.resumed_step is None and record.step >= 0:
                    rank.resumed_step = record.step

    def beats(self) -> tuple[RankBeat, ...]:
        """All ranks, as of the last refresh."""
        now = time.monotonic()
        return tuple(_beat(rank, self._round, now) for rank in self._ranks.values())

    def all_saved(self) -> bool:
        """Whether every local rank saved and left."""
        return self._all(lambda rank: rank.record is not None and rank.record.saved)

    def all_done(self) -> bool:
        """Whether every local rank reached the end of training."""
        return self._all(_is_done)

    def all_stepped(self) -> bool:
        """Whether every local rank made a step of its own."""
        return self._all(_stepped)

    def _all(self, condition: Callable[[_Rank], bool]) -> bool:
        return bool(self._ranks) and all(map(condition, self._ranks.values()))

    def _forget(self) -> None:
        self.close()
        self._ranks = {}

    def _watch(self, rank: _Rank) -> _Rank:
        try:
            rank.pidfd = os.pidfd_open(rank.pid)
        except ProcessLookupError:
            rank.alive = False
            return rank
        asyncio.get_running_loop().add_reader(rank.pidfd, self._died, rank)
        return rank

    def _died(self, rank: _Rank) -> None:
        self._end(rank)
        self.refresh()
        self._changed()

    def _end(self, rank: _Rank) -> None:
        rank.alive = False
        if rank.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(rank.pidfd)
            os.close(rank.pidfd)
            rank.pidfd = -1


def _stepped(rank: _Rank) -> bool:
    record, resumed = rank.record, rank.resumed_step
    return record is not None and resumed is not None and record.step > resumed


def _is_done(rank: _Rank) -> bool:
    """By its own mark; of a script that never speaks, exit code 0 is its word."""
    record = rank.record
    if record is None:
        return rank.finished
    return record.done or (rank.finished and not record.speaks and not record.saved)


def _age(rank: _Rank, now: float) -> float:
    return now - rank.started if rank.record is None else rank.record.age_seconds(now)


def _beat(rank: _Rank, number: int, now: float) -> RankBeat:
    base = RankBeat(
        local_rank=rank.local_rank,
        rank=rank.rank,
        pid=rank.pid,
        alive=rank.alive,
        round=number,
        age_seconds=round(_age(rank, now), 2),
        done=_is_done(rank),
    )
    record = rank.record
    if record is None:
        return base
    return replace(
        base,
        step=record.step,
        phase=record.phase,
        checkpoint_step=record.checkpoint_step,
        iteration=record.iteration,
        saved=record.saved,
        error=record.error,
        error_iteration=record.error_iteration,
    )
