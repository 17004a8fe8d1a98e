"""Takes in a batch of faults: each opens an incident, joins the open one, or shows that the open
one was not over."""

from dataclasses import replace

from rtj_api.ladder import FaultClass, Rung
from rtj_api.status import Recovery
from rtj_operator.policy.incident import blame, budgets, ends, repeats, reservation
from rtj_operator.policy.incident.carry_out import carry_out, is_lost_coordinator, opening
from rtj_operator.policy.incident.same import outlives_its_end, same_incident
from rtj_operator.policy.incident.transitions import (
    Blame,
    Outcome,
    Suspect,
    Transition,
    higher,
    transition,
)
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.fault import Batch, Fault, is_outdated


def absorb(plan: Plan, batch: Batch) -> Plan:
    """The plan with every fault of the batch taken in, each once."""
    incarnation = plan.status.coordinator.incarnation
    for fault in batch.faults:
        if not plan.training:
            return plan
        replaced = plan.status.coordinator.incarnation != incarnation
        if replaced and fault.told_by == "report":
            # Nobody will ask for the reports of a coordinator that is given up.
            continue
        plan = _absorb_one(plan, fault, batch)
    if plan.status.coordinator.incarnation != incarnation:
        return plan
    coordinator = changed(plan.status.coordinator, absorbed_fault=batch.judged_report)
    return plan.write(coordinator=coordinator)


def _absorb_one(plan: Plan, fault: Fault, batch: Batch) -> Plan:
    if is_outdated(plan, fault.kind, fault.slot, fault.incarnation, fault.run):
        return _refine(plan, fault)
    current = plan.status.recovery
    if current is None or not outlives_its_end(current, fault):
        told = fault.step if fault.told_by == "report" else -1
        plan = reservation.end_recovered(plan, told)
    if fault.fatal:
        return ends.fail_fatal(plan, fault)
    if ends.is_out_of_memory_again(plan, fault):
        return ends.fail_out_of_memory(plan, fault)
    current = plan.status.recovery
    if current is None or fault.spare:
        return _open(plan, fault, batch)
    if same_incident(current, fault):
        return _join(plan, current, fault, batch)
    return _go_on(plan, current, fault, batch)


def _refine(plan: Plan, fault: Fault) -> Plan:
    """The report of a loss on which the cluster's word was already acted: it measures better."""
    recovery = plan.status.recovery
    if recovery is None or recovery.fault or fault.kind != "worker":
        return plan
    if (recovery.slot, recovery.incarnation) != (fault.slot, fault.incarnation):
        return plan
    return plan.write(
        recovery=changed(
            recovery,
            fault=fault.report,
            rank=fault.rank if fault.rank is not None else recovery.rank,
            detected_seconds=fault.detected_seconds,
            stalled_unix=reservation.earliest(recovery.stalled_unix, fault.stalled_unix),
        )
    )


def _open(plan: Plan, fault: Fault, batch: Batch) -> Plan:
    move = opening(fault)
    if plan.status.recovery is None:
        plan, move = _strike(plan, fault, _remembered(plan, fault, move))
    return carry_out(plan, fault, move, batch)


def _strike(plan: Plan, fault: Fault, move: Transition) -> tuple[Plan, Transition]:
    """The plan with a strike against the fault's node, if the move blames it so. The move is one to
    rung Node when the node has as many strikes as exclude it."""
    plan, struck_out = blame.strike(plan, fault, move.blame)
    if not struck_out:
        return plan, move
    return plan, replace(move, next=higher(move.next, Rung.NODE), blame=Blame.EXCLUDE)


def _remembered(plan: Plan, fault: Fault, move: Transition) -> Transition:
    """The move at the rung to which the last incident of this class in this slot had to climb."""
    last = next(reversed(plan.status.history), None)
    if last is None or not reservation.is_recent(plan, last):
        return move
    if last.fault_class != fault.fault_class or last.slot != fault.slot:
        return move
    own = opening(fault).next
    if last.rung.height <= own.height or last.rung is Rung.FAILED:
        return move
    return replace(move, next=last.rung)


def _join(plan: Plan, current: Recovery, fault: Fault, batch: Batch) -> Plan:
    plan = blame.withdraw(plan, current, fault)
    current = plan.status.recovery or current
    move = opening(fault)
    if fault.fault_class is FaultClass.ADMISSION_FAILED:
        plan, move = _strike(plan, fault, move)
    must_replace = fault.lost or is_lost_coordinator(fault)
    if not must_replace and move.next.height <= current.rung.height:
        return plan
    by_itself = current.rung in (Rung.IN_PROCESS, Rung.IN_JOB)
    if by_itself and current.rung.height < move.next.height:
        plan = budgets.refund(plan, current.rung)
    return carry_out(plan, fault, move, batch, keep=current)


def _go_on(plan: Plan, current: Recovery, fault: Fault, batch: Batch) -> Plan:
    """A fault before any new step: the incident was not over, or another one has begun."""
    plan = reservation.end_without_step(plan, current)
    if ends.has_no_progress(plan):
        plan = plan.write(recovery=reservation.reserve(plan, fault, Rung.FAILED))
        plan = ends.tell_fault(plan, fault, Rung.FAILED)
        return ends.fail_no_progress(plan, fault.reason)
    whom = repeats.whom(plan, current, fault)
    plan = carry_out(plan, fault, _move_again(plan, current, fault, whom), batch)
    return repeats.blame_nobody(plan, current) if whom is repeats.Whom.NOBODY else plan


def _move_again(plan: Plan, current: Recovery, fault: Fault, whom: repeats.Whom) -> Transition:
    """The move for a fault that came before any new step: one rung higher, unless it is another's.

    A node is given up only for another one, so that a program that is broken ends in its error, not
    in waiting.
    """
    own = opening(fault)
    if whom is repeats.Whom.OTHER:
        return own
    suspect = Suspect.NOBODY
    if whom is repeats.Whom.NODE:
        suspect = Suspect.NODE if repeats.has_other_node(plan) else Suspect.WORKER
    climbed = transition(fault.fault_class, current.rung, Outcome.AGAIN, suspect)
    if own.next.height > climbed.next.height:
        return own
    return replace(climbed, blame=own.blame) if own.blame is Blame.EXCLUDE else climbed
