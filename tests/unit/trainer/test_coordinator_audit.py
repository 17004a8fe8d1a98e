"""The audit of rounds: which members are wrong, and the cure that was found to work for it."""

import pytest

from rtj_trainer.coordinator.audit import ClearEntry, OpenRound, ReleaseMaster, audit
from rtj_trainer.nvrx.limits import LAUNCHES
from rtj_trainer.nvrx.rendezvous import Participant, Rounds

RUN, NODES = 7, 2
WANTED = frozenset({(0, 0), (1, 3)})


def member(position: int, launch: int, rank: int = -1, entry: int = 1) -> Participant:
    return Participant(entry, 4, position * LAUNCHES + launch, "10.0.0.1", rank, b"raw")


def closed(*members: Participant) -> Rounds:
    return Rounds(closed=4, open=False, participants=members)


def opened(*members: Participant) -> Rounds:
    return Rounds(closed=3, open=True, participants=members)


OPEN_NEXT = OpenRound(RUN, after=4)


@pytest.mark.parametrize(
    ("rounds", "want"),
    [
        pytest.param(closed(member(0, 0, 0), member(1, 3, 1)), (), id="all in place"),
        pytest.param(
            closed(member(0, 0, 0), member(1, 3, 1), member(1, 4, 2)), (), id="a surplus joiner"
        ),
        pytest.param(closed(member(0, 0, 0), member(1, 2, 1)), (OPEN_NEXT,), id="a ghost"),
        pytest.param(
            closed(member(0, 1, 0), member(1, 3, 1)),
            (ReleaseMaster(RUN, 4), OPEN_NEXT),
            id="a ghost as rank 0: the others wait for its address",
        ),
        pytest.param(
            closed(member(0, 0, 0), member(1, 2, 1), member(1, 3, 2)),
            (OPEN_NEXT,),
            id="a stale launch pushed the right one out",
        ),
        pytest.param(
            closed(member(0, 0, 1), member(1, 3, 0)), (OPEN_NEXT,), id="ranks are not positions"
        ),
        pytest.param(closed(member(0, 0, 0)), (OPEN_NEXT,), id="one is missing"),
        pytest.param(
            opened(member(0, 0), member(1, 2, entry=2)),
            (ClearEntry(RUN, member(1, 2, entry=2)),),
            id="a ghost in the open round",
        ),
        pytest.param(opened(member(0, 0)), (), id="an open round waits for the rest"),
        pytest.param(Rounds(), (), id="before the first round"),
        pytest.param(
            Rounds(closed=4, participants=(member(1, 2, 0),), shutdown="failure"),
            (),
            id="NVRx has given up: nothing helps",
        ),
    ],
)
def test_cures(rounds: Rounds, want: tuple[object, ...]) -> None:
    assert audit(RUN, NODES, rounds, WANTED, restart=False) == want


def test_a_wanted_restart_opens_the_next_round_once() -> None:
    whole = closed(member(0, 0, 0), member(1, 3, 1))
    assert audit(RUN, NODES, whole, WANTED, restart=True) == (OPEN_NEXT,)
    assert audit(RUN, NODES, opened(), WANTED, restart=True) == ()
