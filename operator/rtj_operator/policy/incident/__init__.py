"""What is done about a batch of faults: incidents open, are joined, climb the ladder and end."""

from rtj_operator.policy.incident import absorb, blame, counters, repeats, reservation
from rtj_operator.policy.incident.climb import climb_overdue
from rtj_operator.policy.incident.counters import follow_restarted_process
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.fault import Batch

__all__ = ["climb_overdue", "follow_restarted_process", "take_in"]


def take_in(plan: Plan, batch: Batch) -> Plan:
    """The plan with a batch taken in: what it opened, joined, and what has ended by a new step."""
    plan = blame.acquit_recent(plan, batch)
    plan = counters.count_unreported_restarts(plan)
    plan = absorb.absorb(plan, batch)
    plan = reservation.end_recovered(reservation.measure(plan))
    return repeats.exclude_proven(plan, batch)
