"""Faults after which the job fails: what is said, and which field to change."""

from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import EventReason, Reason
from rtj_api.status import LastFault
from rtj_operator.policy.conditions import fail
from rtj_operator.policy.incident import reservation
from rtj_operator.policy.incident.same import same_incident
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.fault import Fault
from rtj_operator.policy.times import rfc3339, unix


def tell_fault(plan: Plan, fault: Fault, rung: Rung) -> Plan:
    """The plan with a fault and its rung told: in `status.lastFault` and as an Event."""
    last = LastFault(
        summary=summarize(fault),
        fault_class=fault.fault_class,
        message=fault.reason,
        time=rfc3339(min(fault.detected_unix or plan.now, plan.now)),
    )
    text = f"{last.summary}, recovery at rung {rung}: {fault.reason}"
    return plan.write(last_fault=last).tell("Warning", EventReason.FAULT_DETECTED, text)


def summarize(fault: Fault) -> str:
    """The LAST FAULT column: class, node or slot, rank."""
    where = fault.node or (f"slot {fault.slot}" if fault.slot is not None else "")
    if fault.rank is not None:
        where = f"{where}, rank {fault.rank}" if where else f"rank {fault.rank}"
    name = fault.fault_class.value
    return f"{name} ({where})"[:128] if where else name


def fail_fatal(plan: Plan, fault: Fault) -> Plan:
    """A rank or ft_launcher said that a restart is useless."""
    text = f"A restart would not help: {fault.reason}"
    return fail(_give_up(plan, fault), Reason.DO_NOT_RESTART, text)


def fail_budget(plan: Plan, fault: Fault, exceeded: str) -> Plan:
    """No rung has a recovery left in its window."""
    text = f"{exceeded} Last fault: {fault.reason}"
    return fail(_give_up(plan, fault), Reason.RESTART_BUDGET_EXCEEDED, text)


def has_no_progress(plan: Plan) -> bool:
    """Whether as many recoveries in a row as may brought no new step."""
    limit = plan.spec.resilience.progress.max_restarts_without_progress
    return plan.status.restarts_without_progress >= limit


def fail_no_progress(plan: Plan, reason: str) -> Plan:
    """Recovery after recovery brought no new step."""
    tried = plan.status.restarts_without_progress
    text = (
        f"No new step after {tried} recoveries in a row (highest step "
        f"{plan.status.progress.highest_step}; limit "
        f"spec.resilience.progress.maxRestartsWithoutProgress). Last fault: {reason}"
    )
    return fail(plan, Reason.NO_PROGRESS, text)


def is_out_of_memory_again(plan: Plan, fault: Fault) -> bool:
    """Whether the same rank or worker was killed for want of memory before."""
    if fault.fault_class is not FaultClass.OUT_OF_MEMORY or fault.spare:
        return False
    start = plan.now - plan.spec.resilience.in_job.window_seconds
    earlier = [e for e in plan.status.history if e.detected_time and unix(e.detected_time) >= start]
    seen = [(e.fault_class, e.slot, e.rank) for e in earlier]
    current = plan.status.recovery
    if current is not None and not same_incident(current, fault):
        seen.append((current.fault_class, current.slot, current.rank))
    return (fault.fault_class, fault.slot, fault.rank) in seen


def fail_out_of_memory(plan: Plan, fault: Fault) -> Plan:
    """Killed for want of memory twice at the same place."""
    text = (
        "Out of memory twice at the same place: raise resources.limits.memory of container "
        f"trainer in spec.template, or lower what a rank holds. {fault.reason}"
    )
    return fail(_give_up(plan, fault), Reason.OUT_OF_MEMORY, text)


def _give_up(plan: Plan, fault: Fault) -> Plan:
    plan = plan.write(recovery=reservation.reserve(plan, fault, Rung.FAILED))
    return tell_fault(plan, fault, Rung.FAILED)
