"""The ladder as one table: what follows from a fault's class, the rung reached so far, what became
of it, and whom it points at.

The first row that fits counts. `docs/reference.md`, the diagram in `docs/concepts.md` and the test
that walks every row are made from it. A new class of faults is one row and one test.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rtj_api.ladder import FaultClass, Rung


class Outcome(StrEnum):
    """What became of the incident, as far as it goes on."""

    NEW = "new"  # the fault opens an incident
    AGAIN = "again"  # a fault came before any new step
    OVERDUE = "overdue"  # the rung's deadline passed without a new step
    SPENT = "spent"  # the rung has no recovery left in its window


class Suspect(StrEnum):
    """Whom a fault points at."""

    NOBODY = "nobody"  # no single worker
    WORKER = "worker"  # one worker, but not its node, or there is no other node
    NODE = "node"  # the node of one worker


class Replace(StrEnum):
    """What is made anew."""

    NOTHING = "nothing"  # NVRx restarts ranks or processes
    POD = "pod"  # the suspect's pod; on another node if its node is excluded
    RUN = "run"  # every launcher; pods stay


REPLACES: Final[dict[Rung, Replace]] = {
    Rung.IN_PROCESS: Replace.NOTHING,
    Rung.IN_JOB: Replace.NOTHING,
    Rung.POD: Replace.POD,
    Rung.NODE: Replace.POD,
    Rung.GANG: Replace.RUN,
    Rung.FAILED: Replace.NOTHING,
}


class Blame(StrEnum):
    """What is held against a node."""

    NOBODY = "nobody"
    STRIKE = "strike"  # one more fault of it; as many as spec.resilience.node.strikes exclude it
    EXCLUDE = "exclude"  # the job keeps off it


class Cost(StrEnum):
    """Which budget a recovery is taken from."""

    NOTHING = "nothing"
    RUNG = "rung"  # the rung's own
    DISPLACED = "displaced"  # spec.resilience.displaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One row. None: any."""

    fault_class: FaultClass | None = None
    # The rung that the incident has reached.
    rung: Rung | None = None
    outcomes: frozenset[Outcome]
    suspects: frozenset[Suspect] = frozenset(Suspect)
    # What follows.
    next: Rung
    blame: Blame
    cost: Cost = Cost.RUNG

    @property
    def replace(self) -> Replace:
        """What is made anew; the rung alone says it, however an incident came to it."""
        return REPLACES[self.next]

    def fits(
        self, fault_class: FaultClass, rung: Rung | None, outcome: Outcome, suspect: Suspect
    ) -> bool:
        """Whether the row is about that case."""
        return (
            self.fault_class in (None, fault_class)
            and (self.rung is None or self.rung is rung)
            and outcome in self.outcomes
            and suspect in self.suspects
        )


def _opens(
    fault_class: FaultClass,
    rung: Rung,
    blame: Blame,
    cost: Cost = Cost.RUNG,
    suspects: frozenset[Suspect] = frozenset(Suspect),
) -> Transition:
    return Transition(
        fault_class=fault_class,
        outcomes=frozenset({Outcome.NEW}),
        suspects=suspects,
        next=rung,
        blame=blame,
        cost=cost,
    )


def _climbs(
    rung: Rung,
    next_: Rung,
    blame: Blame,
    *,
    outcomes: tuple[Outcome, ...] = (Outcome.AGAIN, Outcome.OVERDUE, Outcome.SPENT),
    suspects: tuple[Suspect, ...] = tuple(Suspect),
    fault_class: FaultClass | None = None,
    cost: Cost = Cost.RUNG,
) -> Transition:
    return Transition(
        fault_class=fault_class,
        rung=rung,
        outcomes=frozenset(outcomes),
        suspects=frozenset(suspects),
        next=next_,
        blame=blame,
        cost=cost,
    )


_NODE = frozenset({Suspect.NODE})

TRANSITIONS: Final[tuple[Transition, ...]] = (
    # --- a fault opens an incident: by its class ---
    _opens(FaultClass.APPLICATION, Rung.IN_PROCESS, Blame.STRIKE),
    _opens(FaultClass.PROCESS_DIED, Rung.IN_JOB, Blame.STRIKE),
    _opens(FaultClass.START_FAILED, Rung.IN_JOB, Blame.NOBODY),
    _opens(FaultClass.HANG, Rung.IN_JOB, Blame.STRIKE),
    _opens(FaultClass.OUT_OF_MEMORY, Rung.IN_JOB, Blame.STRIKE),
    _opens(FaultClass.POD_DIED, Rung.POD, Blame.STRIKE),
    _opens(FaultClass.ADMISSION_FAILED, Rung.POD, Blame.STRIKE, Cost.DISPLACED),
    _opens(FaultClass.DISPLACED, Rung.NODE, Blame.NOBODY, Cost.DISPLACED, suspects=_NODE),
    _opens(FaultClass.DISPLACED, Rung.POD, Blame.NOBODY, Cost.DISPLACED),
    _opens(FaultClass.NODE_LOST, Rung.NODE, Blame.EXCLUDE),
    _opens(FaultClass.HARDWARE, Rung.NODE, Blame.EXCLUDE),
    _opens(FaultClass.CONTROL_LOST, Rung.GANG, Blame.NOBODY),
    _opens(FaultClass.SOFTWARE, Rung.FAILED, Blame.NOBODY),
    # --- starts that fail everywhere are tried again at the same rung, later each time: whatever
    # they load may be away for a while ---
    _climbs(
        Rung.IN_JOB,
        Rung.IN_JOB,
        Blame.NOBODY,
        fault_class=FaultClass.START_FAILED,
        outcomes=(Outcome.AGAIN,),
        suspects=(Suspect.NOBODY,),
    ),
    # --- an incident goes on: by the rung that was not enough ---
    _climbs(Rung.IN_PROCESS, Rung.IN_JOB, Blame.NOBODY),
    _climbs(Rung.IN_JOB, Rung.GANG, Blame.NOBODY, suspects=(Suspect.NOBODY,)),
    _climbs(Rung.IN_JOB, Rung.POD, Blame.NOBODY),
    _climbs(
        Rung.POD,
        Rung.NODE,
        Blame.EXCLUDE,
        outcomes=(Outcome.AGAIN, Outcome.OVERDUE),
        suspects=(Suspect.NODE,),
    ),
    _climbs(
        Rung.POD,
        Rung.NODE,
        Blame.NOBODY,
        outcomes=(Outcome.SPENT,),
        suspects=(Suspect.WORKER, Suspect.NODE),
    ),
    _climbs(Rung.POD, Rung.GANG, Blame.NOBODY),
    _climbs(Rung.NODE, Rung.GANG, Blame.NOBODY),
    _climbs(Rung.GANG, Rung.GANG, Blame.NOBODY, outcomes=(Outcome.AGAIN,)),
    _climbs(Rung.GANG, Rung.FAILED, Blame.NOBODY),
)


def transition(
    fault_class: FaultClass, rung: Rung | None, outcome: Outcome, suspect: Suspect
) -> Transition:
    """The row for that case. `rung` is None for a fault that opens an incident.

    Raises LookupError for a case without a row, such as one after Failed.
    """
    for row in TRANSITIONS:
        if row.fits(fault_class, rung, outcome, suspect):
            return row
    raise LookupError(f"no transition for {fault_class} at {rung}, {outcome}, suspect {suspect}")


def entry(fault_class: FaultClass, suspect: Suspect = Suspect.WORKER) -> Rung:
    """The rung at which an incident of that class opens."""
    return transition(fault_class, None, Outcome.NEW, suspect).next


def higher(one: Rung, other: Rung) -> Rung:
    """The one further up the ladder."""
    return max(one, other, key=lambda rung: rung.height)
