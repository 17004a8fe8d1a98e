"""The ladder's table, row by row."""

import itertools

import pytest

from rtj_api.ladder import FaultClass, Rung
from rtj_operator.policy.incident.transitions import (
    TRANSITIONS,
    Blame,
    Outcome,
    Replace,
    Suspect,
    Transition,
    transition,
)

NEW, AGAIN, OVERDUE, SPENT = Outcome
NOBODY, WORKER, NODE = Suspect
CLIMBABLE = (Rung.IN_PROCESS, Rung.IN_JOB, Rung.POD, Rung.NODE, Rung.GANG)


def cases() -> list[tuple[FaultClass, Rung | None, Outcome, Suspect]]:
    """Everything that may be asked of the table."""
    opens = itertools.product(FaultClass, (None,), (NEW,), Suspect)
    climbs = itertools.product(FaultClass, CLIMBABLE, (AGAIN, OVERDUE, SPENT), Suspect)
    return [*opens, *climbs]


def test_every_case_has_a_row() -> None:
    for case in cases():
        assert transition(*case).fits(*case)


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{TRANSITIONS.index(row)}")
def test_every_row_is_the_first_that_fits_some_case(row: Transition) -> None:
    assert any(transition(*case) is row for case in cases())


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{TRANSITIONS.index(row)}")
def test_a_node_is_given_up_only_by_moving_off_it(row: Transition) -> None:
    assert row.blame is not Blame.EXCLUDE or row.replace is Replace.POD


def test_no_row_leads_down_the_ladder() -> None:
    for row in TRANSITIONS:
        if row.rung is not None:
            assert row.next.height >= row.rung.height


@pytest.mark.parametrize("outcome", [AGAIN, OVERDUE])
@pytest.mark.parametrize("suspect", list(Suspect))
def test_what_goes_on_ends(outcome: Outcome, suspect: Suspect) -> None:
    """Overdue rungs end in Failed; a fault that comes again ends in Gang, which is bounded by the
    restarts without progress, as starts that fail are."""
    for fault_class in FaultClass:
        rung = Rung.IN_PROCESS
        for _ in Rung:
            if rung is not Rung.FAILED:
                rung = transition(fault_class, rung, outcome, suspect).next
        if outcome is OVERDUE:
            assert rung is Rung.FAILED
        else:
            assert rung in (Rung.GANG, Rung.IN_JOB)


@pytest.mark.parametrize(
    ("rung", "outcome", "suspect", "want"),
    [
        pytest.param(Rung.IN_PROCESS, AGAIN, WORKER, Rung.IN_JOB, id="in-process, then in-job"),
        pytest.param(Rung.IN_JOB, AGAIN, WORKER, Rung.POD, id="in-job, then the suspect's pod"),
        pytest.param(Rung.IN_JOB, AGAIN, NOBODY, Rung.GANG, id="without a suspect no pod"),
        pytest.param(Rung.POD, AGAIN, NODE, Rung.NODE, id="pod, then node"),
        pytest.param(Rung.POD, AGAIN, WORKER, Rung.GANG, id="no other node: the gang"),
        pytest.param(Rung.POD, SPENT, WORKER, Rung.NODE, id="pod's budget spent: the node's"),
        pytest.param(Rung.NODE, OVERDUE, NODE, Rung.GANG, id="node, then gang"),
        pytest.param(Rung.GANG, AGAIN, NODE, Rung.GANG, id="gang again"),
        pytest.param(Rung.GANG, OVERDUE, NODE, Rung.FAILED, id="gang, then the end"),
    ],
)
def test_climbing(rung: Rung, outcome: Outcome, suspect: Suspect, want: Rung) -> None:
    assert transition(FaultClass.PROCESS_DIED, rung, outcome, suspect).next is want


def test_nothing_follows_the_end() -> None:
    with pytest.raises(LookupError):
        transition(FaultClass.HANG, Rung.FAILED, OVERDUE, NODE)
