"""Clocks of signs that must last: each starts once, in status, and survives a change of leader.

A rule notes its sign in each pass in which it sees it; what no rule noted is swept at the end.
Times in status are whole seconds, so a clock may run up to a second early. Clocks are bounded, each
kind of sign on its own, so that many nodes at once never stop the clock of the job itself. A sign
that finds none free has not lasted: it waits until one of its kind is.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Final

from rtj_api.status import PENDING_MAX, PendingSignal
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.times import unix

# Seconds for which a node must be called not ready, or not be there, before a pod on it of which
# nothing else is known is given up: a new machine may be heard of after its first pod.
UNREADY_SECONDS: Final = 10.0


class Signal(StrEnum):
    """Signs with a clock."""

    GANG_INCOMPLETE = "GangIncomplete"  # not all workers run and are heard of
    SUSPENDING = "Suspending"  # ranks were asked to save and leave
    JUDGING = "Judging"  # a worker is lost; the cluster has not said how
    JUDGING_SPARE = "JudgingSpare"  # the same of one that training does not need
    NODE_HEALTHY = "NodeHealthy"  # a node whose loss the cluster confirmed is ready again
    NODE_UNREADY = "NodeUnready"  # the cluster calls a worker's node not ready
    UNHEARD = "Unheard"  # the coordinator hears none of its workers
    OUTAGE = "Outage"  # it calls most nodes not ready at once, and nothing else tells of the pods


# Clocks of one kind of sign.
CLOCKS_MAX: Final = PENDING_MAX // len(Signal)


def clock(plan: Plan, signal: Signal, subject: str) -> float | None:
    """Unix seconds at which the sign was first seen; None: no such clock."""
    return next(
        (
            unix(entry.first_seen_time)
            for entry in plan.status.pending
            if entry.signal == signal and entry.subject == subject
        ),
        None,
    )


def note(plan: Plan, signal: Signal, subject: str) -> Plan:
    """The plan with that sign seen now: its clock runs on, or starts if one is free."""
    return _start(replace(plan, signs=plan.signs | {(signal, subject)}), signal, subject)


def _start(plan: Plan, signal: str, subject: str) -> Plan:
    pending = plan.status.pending
    alike = [entry.subject for entry in pending if entry.signal == signal]
    if subject in alike or len(alike) >= CLOCKS_MAX:
        return plan
    entry = PendingSignal(signal=signal, subject=subject, first_seen_time=plan.now_text)
    return plan.write(pending=(*pending, entry))


def lasted(plan: Plan, signal: Signal, subject: str, seconds: float) -> tuple[Plan, bool]:
    """Note the sign; whether it has lasted that long. If not, a wake-up is set."""
    plan = note(plan, signal, subject)
    since = clock(plan, signal, subject)
    if since is not None and plan.now >= since + seconds:
        return plan, True
    return plan.wake_at((plan.now if since is None else since) + seconds), False


def settled(plan: Plan, subject: str) -> Plan:
    """The plan without signs of that subject: they were acted on."""
    return replace(plan, signs=frozenset(s for s in plan.signs if s[1] != subject))


def stopped(plan: Plan, signal: Signal, subject: str) -> Plan:
    """The plan with that clock stopped at once: rules after this one in the pass ask status too."""
    left = (e for e in plan.status.pending if (e.signal, e.subject) != (signal, subject))
    plan = plan.write(pending=tuple(left))
    return replace(plan, signs=plan.signs - {(signal, subject)})


def noted(plan: Plan, signal: Signal, subject: str | None = None) -> bool:
    """Whether a rule saw that sign in this pass; without a subject: of anything."""
    return any(sig == signal and subject in (None, sub) for sig, sub in plan.signs)


def judging(plan: Plan) -> bool:
    """Whether a lost worker in training is being judged."""
    return noted(plan, Signal.JUDGING) or noted(plan, Signal.UNHEARD)


def sweep(plan: Plan) -> Plan:
    """The plan without the clocks of signs that no rule saw in this pass; of none at rest.

    Clocks that get free so go to signs that found none.
    """
    signs = plan.signs if plan.live else frozenset[tuple[str, str]]()
    kept = (e for e in plan.status.pending if (e.signal, e.subject) in signs)
    plan = plan.write(pending=tuple(kept))
    for signal, subject in sorted(signs):
        plan = _start(plan, signal, subject)
    return plan
