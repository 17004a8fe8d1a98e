"""Counts a fault that is over, without acting on it; a node that it accuses stays accused."""

from rtj_api.messages import FaultReport
from rtj_operator.policy.incident import blame, budgets, ends, reservation
from rtj_operator.policy.incident.carry_out import opening
from rtj_operator.policy.incident.transitions import Blame
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.breaker import breaker_open
from rtj_operator.policy.signals.fault import Batch
from rtj_operator.policy.signals.reports import judge_without_delay


def record(plan: Plan, report: FaultReport, seconds: float) -> Plan:
    """The plan with the fault of a report in its history."""
    fault = judge_without_delay(plan, report)
    move = opening(fault)
    plan = budgets.count(ends.tell_fault(plan, fault, move.next), move.next)
    lost_steps = reservation.steps_lost(report.step, report)
    plan = reservation.remember(plan, fault, move.next, seconds, lost_steps)
    if move.blame is not Blame.EXCLUDE:
        return plan
    return blame.exclude(plan, fault, Batch(breaker_open=breaker_open(plan)))
