"""Clocks of signs that must last before they count: each starts once, in status, and so survives a
change of leader.

Every kind of clock has one owner, which starts it while its sign is seen and stops it when it is
not. Times in status are whole seconds, so a clock may run up to a second early. Each kind has a
bound of its own, so that many nodes at once never stop the clock of the job itself; a sign that
finds no free clock has not lasted and waits until one of its kind is free.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from rtj_api.status import PENDING_MAX, PendingSignal
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.times import unix


class Clock(StrEnum):
    """Kinds of clocks, each with what has to last."""

    # Owned by signals.gather; the subject is a pod, COORDINATOR or NODES.
    JUDGING = "Judging"  # a worker is lost; the cluster has not said how
    JUDGING_SPARE = "JudgingSpare"  # the same of one that training does not need
    NODE_UNREADY = "NodeUnready"  # the cluster calls a worker's node not ready
    UNHEARD = "Unheard"  # the coordinator hears none of its workers
    BREAKER = "Breaker"  # so many of the job's nodes looked bad that none was given up
    OUTAGE = "Outage"  # most of the job's nodes look bad at once
    # Owned by lifecycle.
    GANG_INCOMPLETE = "GangIncomplete"  # not all workers run and are heard of
    SUSPENDING = "Suspending"  # ranks were asked to save and leave
    # Owned by nodes.release; the subject is a node.
    NODE_HEALTHY = "NodeHealthy"  # an excluded node is ready


GATHERED: Final = frozenset(
    {
        Clock.JUDGING,
        Clock.JUDGING_SPARE,
        Clock.NODE_UNREADY,
        Clock.UNHEARD,
        Clock.BREAKER,
        Clock.OUTAGE,
    }
)
# Subjects that are no pod's or node's name.
COORDINATOR: Final = "coordinator"
NODES: Final = "nodes"
# Clocks of one kind.
CLOCKS_MAX: Final = PENDING_MAX // len(Clock)


def started_at(plan: Plan, clock: Clock, subject: str) -> float | None:
    """Unix seconds at which that clock started; None: it does not run."""
    return next(
        (
            unix(entry.first_seen_time)
            for entry in plan.status.pending
            if entry.signal == clock and entry.subject == subject
        ),
        None,
    )


def runs(plan: Plan, clock: Clock) -> bool:
    """Whether any clock of that kind runs."""
    return any(entry.signal == clock for entry in plan.status.pending)


def start(plan: Plan, clock: Clock, subject: str) -> Plan:
    """The plan with that clock running, if one of its kind is free."""
    pending = plan.status.pending
    alike = [entry.subject for entry in pending if entry.signal == clock]
    if subject in alike or len(alike) >= CLOCKS_MAX:
        return plan
    entry = PendingSignal(signal=clock, subject=subject, first_seen_time=plan.now_text)
    return plan.write(pending=(*pending, entry))


def stop(plan: Plan, clock: Clock, subject: str) -> Plan:
    """The plan without that clock."""
    kept = (e for e in plan.status.pending if (e.signal, e.subject) != (clock, subject))
    return plan.write(pending=tuple(kept))


def keep_only(plan: Plan, kinds: Collection[Clock], seen: Collection[tuple[Clock, str]]) -> Plan:
    """The plan in which, of these kinds, the clocks of exactly the seen signs run."""
    wanted = {(str(clock), subject) for clock, subject in seen}
    names = {str(kind) for kind in kinds}
    if not wanted and all(e.signal not in names for e in plan.status.pending):
        return plan
    kept = (
        e for e in plan.status.pending if e.signal not in names or (e.signal, e.subject) in wanted
    )
    plan = plan.write(pending=tuple(kept))
    for clock, subject in sorted(seen):
        plan = start(plan, clock, subject)
    return plan


def lasted(plan: Plan, clock: Clock, subject: str, seconds: float) -> tuple[Plan, bool]:
    """Start that clock; whether it has run that long. If not, the plan wakes up then."""
    plan = start(plan, clock, subject)
    since = started_at(plan, clock, subject)
    if since is not None and plan.now >= since + seconds:
        return plan, True
    return plan.wake_at((plan.now if since is None else since) + seconds), False


def stop_all_at_rest(plan: Plan) -> Plan:
    """The plan without clocks, when no pod of the job is wanted."""
    return plan if plan.live else plan.write(pending=())
