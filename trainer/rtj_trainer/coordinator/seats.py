"""Who holds which position of the training. Pure.

A position 0..N-1 is a place in the training and with it a set of ranks; a seat is the worker that
holds it and the launch number of its launcher. Ranks stay with the position, so a spare that takes
a lost one leaves every other rank where it was.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rtj_trainer.coordinator.table import Worker

# The launch number is still being taken from the store.
PENDING: Final = -1


@dataclass(frozen=True, slots=True)
class Seat:
    """A position's holder."""

    position: int
    uid: str
    launch: int = PENDING


class Seats:
    """The N positions of one run; at most one worker each, and no worker holds two."""

    def __init__(self, nodes: int) -> None:
        self._seats: list[Seat | None] = [None] * nodes
        self._positions: dict[str, int] = {}

    def __iter__(self) -> Iterator[Seat]:
        return (seat for seat in self._seats if seat is not None)

    def __len__(self) -> int:
        """Number of positions, held or not."""
        return len(self._seats)

    @property
    def vacant(self) -> list[int]:
        """Positions that nobody holds, lowest first."""
        return [position for position, seat in enumerate(self._seats) if seat is None]

    @property
    def launches(self) -> frozenset[tuple[int, int]]:
        """(position, launch) of every launcher that is to take part."""
        return frozenset((seat.position, seat.launch) for seat in self if seat.launch != PENDING)

    def at(self, position: int) -> Seat | None:
        """The seat of a position."""
        return self._seats[position]

    def of(self, uid: str) -> Seat | None:
        """The seat that a worker holds."""
        position = self._positions.get(uid)
        return None if position is None else self._seats[position]

    def holders(self) -> dict[int, str]:
        """Position -> pod UID."""
        return {seat.position: seat.uid for seat in self}

    def give(self, position: int, uid: str) -> None:
        """Give a vacant position, or the holder a new launch; the launch number is taken later."""
        held = self._seats[position]
        if held is not None and held.uid != uid:
            raise ValueError(f"position {position} is held by {held.uid}")
        other = self.of(uid)
        if other is not None and other.position != position:
            raise ValueError(f"{uid} holds position {other.position}")
        self._put(Seat(position, uid))

    def set_launch(self, position: int, uid: str, launch: int) -> None:
        """The number was taken; of no use if the position was given away meanwhile."""
        if self._seats[position] == Seat(position, uid):
            self._put(Seat(position, uid, launch))

    def vacate(self, position: int) -> None:
        """Take the position away from its holder."""
        held, self._seats[position] = self._seats[position], None
        if held is not None:
            del self._positions[held.uid]

    def adopt(self, workers: Iterable[Worker], run: int) -> None:
        """Keep what workers say they hold in this run, after a restart of the coordinator.

        Of two that name the same position the later launch is right: the earlier was given away.
        """
        claims = [w for w in workers if w.launcher.run == run and _holds(w, len(self))]
        for worker in sorted(claims, key=lambda worker: worker.launcher.launch):
            state = worker.launcher
            if self.of(worker.uid) is None:
                self.vacate(state.position)
                self._put(Seat(state.position, worker.uid, state.launch))

    def _put(self, seat: Seat) -> None:
        self._seats[seat.position] = seat
        self._positions[seat.uid] = seat.position


def _holds(worker: Worker, nodes: int) -> bool:
    state = worker.launcher
    running = state.state in ("joining", "training")
    return running and 0 <= state.position < nodes and state.launch >= 0


def claimed(workers: Iterable[Worker]) -> dict[int, str]:
    """Position -> pod UID of the newest run that workers say they train in, or did until their
    launcher ended."""
    holders = [w for w in workers if w.launcher.position >= 0]
    newest = max((w.launcher.run for w in holders), default=0)
    of_newest = (w for w in holders if w.launcher.run == newest)
    latest = sorted(of_newest, key=lambda worker: worker.launcher.launch)
    return {worker.launcher.position: worker.uid for worker in latest}


def assign(seats: Seats, candidates: Iterable[Worker], preferred: dict[int, str]) -> None:
    """Fill vacant positions: with their preferred holder, else with the lowest slots."""
    waiting = sorted(candidates, key=_order)
    by_uid = {worker.uid: worker for worker in waiting}
    for position in seats.vacant:
        worker = by_uid.get(preferred.get(position, ""))
        if worker is not None and seats.of(worker.uid) is None:
            seats.give(position, worker.uid)
    free = (worker for worker in waiting if seats.of(worker.uid) is None)
    for position, worker in zip(seats.vacant, list(free), strict=False):
        seats.give(position, worker.uid)


def _order(worker: Worker) -> tuple[bool, int, int]:
    """Those with a prepared launcher first, then by slot."""
    return worker.launcher.state != "parked", worker.slot, worker.incarnation
