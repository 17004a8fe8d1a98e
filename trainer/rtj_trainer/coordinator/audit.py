"""What is wrong with the rendezvous' newest round, and the cure. Pure.

One rule covers lost workers, ghosts (launchers that joined and died: NVRx never notices), replaced
launchers and shifted ranks: the members of a closed round must be exactly the launches that hold
the positions, each with its position's rank; otherwise the next round is opened.
"""

from collections.abc import Collection
from dataclasses import dataclass

from rtj_trainer.nvrx.rendezvous import Participant, Rounds


@dataclass(frozen=True, slots=True)
class TakeLaunch:
    """Take a launch number for the holder of a position."""

    run: int
    position: int
    uid: str


@dataclass(frozen=True, slots=True)
class OpenRound:
    """Open the round after the closed round `after`."""

    run: int
    after: int


@dataclass(frozen=True, slots=True)
class ClearEntry:
    """Take a launcher that is not to take part out of the open round."""

    run: int
    participant: Participant


@dataclass(frozen=True, slots=True)
class ReleaseMaster:
    """Free those who wait for the address of a dead rank 0."""

    run: int
    round: int


StoreAction = TakeLaunch | OpenRound | ClearEntry | ReleaseMaster


def audit(
    run: int, nodes: int, rounds: Rounds, launches: Collection[tuple[int, int]], restart: bool
) -> tuple[StoreAction, ...]:
    """The cures for the newest round.

    `launches`: (position, launch) of all that are to take part. `restart`: a new round is wanted
    even if the members are right.
    """
    if rounds.shutdown:
        return ()
    if rounds.open:
        strangers = (p for p in rounds.participants if (p.position, p.launch) not in launches)
        return tuple(ClearEntry(run, participant) for participant in strangers)
    if rounds.closed < 0:
        return ()
    members = [p for p in rounds.participants if 0 <= p.rank < nodes]
    if not restart and _fits(members, nodes, launches):
        return ()
    opening = OpenRound(run, rounds.closed)
    if any(p.rank == 0 and (p.position, p.launch) not in launches for p in members):
        return (ReleaseMaster(run, rounds.closed), opening)
    return (opening,)


def _fits(
    members: Collection[Participant], nodes: int, launches: Collection[tuple[int, int]]
) -> bool:
    in_place = all(p.rank == p.position and (p.position, p.launch) in launches for p in members)
    return in_place and len(members) == nodes
