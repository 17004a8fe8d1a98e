"""Carries out one move of the ladder: reserves it in status, takes it from its budget, replaces and
blames whom the table names.

Everything that a rung does is written into status here (the slot's next incarnation, the excluded
node, the run, the in-job restart asked for); effects follow from status, so that a crash between
the two loses nothing and repeats nothing.
"""

from dataclasses import replace

from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import EventReason
from rtj_api.status import Recovery
from rtj_operator.policy.incident import blame, budgets, ends, reservation
from rtj_operator.policy.incident.same import is_younger, takes_over
from rtj_operator.policy.incident.transitions import (
    Blame,
    Cost,
    Outcome,
    Replace,
    Suspect,
    Transition,
    higher,
    transition,
)
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.fault import Batch, Fault
from rtj_operator.policy.wanted import coordinator, worker_pods


def opening(fault: Fault) -> Transition:
    """The move with which a fault opens an incident. A lost pod is replaced whatever its class."""
    suspect = Suspect.NOBODY
    if fault.slot is not None:
        suspect = Suspect.NODE if fault.off_node else Suspect.WORKER
    move = transition(fault.fault_class, None, Outcome.NEW, suspect)
    if fault.lost and move.next.height < Rung.POD.height:
        return replace(move, next=Rung.POD)
    return move


def carry_out(
    plan: Plan, fault: Fault, move: Transition, batch: Batch, *, keep: Recovery | None = None
) -> Plan:
    """The plan with a move reserved for a fault. `keep`: the open incident that it belongs to."""
    if _is_paid_for(plan, fault, move, keep):
        return _share(plan, fault, move, batch, keep)
    asked = move.next
    move = _affordable(plan, fault, move)
    if fault.spare and move.next.height > Rung.NODE.height:
        # Training does not need it: not worth a gang, let alone the job.
        return plan.wake_at(budgets.free_at(plan, Rung.POD))
    if move.next is Rung.FAILED:
        return ends.fail_budget(plan, fault, budgets.exceeded(plan, asked))
    plan = ends.tell_fault(plan, fault, move.next)
    plan = budgets.count(plan, move.next)
    plan = budgets.spend(plan, move.next, move.cost)
    if fault.spare:
        plan = reservation.remember(plan, fault, move.next)
    else:
        fresh = reservation.reserve(plan, fault, move.next)
        plan = plan.write(recovery=_merged(keep, fresh))
    return _apply(plan, fault, move, batch)


def _is_paid_for(plan: Plan, fault: Fault, move: Transition, keep: Recovery | None) -> bool:
    """Whether what one break took besides is paid for already, at a rung that reaches as far.

    Not so a pod that is younger than the break: one that fails again and again must cost.
    """
    current = plan.status.recovery if fault.spare else keep
    if current is None:
        return fault.spare and budgets.spent_in_this_pass(plan, move.next, move.cost)
    if is_younger(current, fault) or move.next.height > current.rung.height:
        return False
    return not takes_over(current.fault_class, fault.fault_class)


def _share(
    plan: Plan, fault: Fault, move: Transition, batch: Batch, current: Recovery | None
) -> Plan:
    """Replace one more worker in a recovery that is paid for."""
    rung = current.rung if current else move.next
    plan = ends.tell_fault(plan, fault, rung)
    if current is not None:
        plan = plan.write(recovery=_merged(current, reservation.reserve(plan, fault, rung)))
    return _apply(plan, fault, move, batch)


def _affordable(plan: Plan, fault: Fault, move: Transition) -> Transition:
    """The first move from this one on whose budget has a recovery left."""
    if move.cost is Cost.DISPLACED:
        if not budgets.displacements_spent(plan):
            return move
        move = replace(move, cost=Cost.RUNG)
    suspect = Suspect.WORKER if fault.slot is not None else Suspect.NOBODY
    while move.next is not Rung.FAILED and budgets.spent(plan, move.next):
        following = transition(fault.fault_class, move.next, Outcome.SPENT, suspect)
        kept = Blame.EXCLUDE if move.blame is Blame.EXCLUDE else following.blame
        move = replace(following, blame=kept)
    return move


def _apply(plan: Plan, fault: Fault, move: Transition, batch: Batch) -> Plan:
    if move.blame is Blame.EXCLUDE:
        plan = blame.exclude(plan, fault, batch)
    if fault.slot is not None and (fault.lost or move.replace is Replace.POD):
        plan = worker_pods.replace_pod(plan, fault.slot, fault.reason)
    if is_lost_coordinator(fault):
        plan = coordinator.replace_coordinator(plan, fault.reason)
    # An exception alone makes NVRx restart in process.
    in_process = opening(fault).next is Rung.IN_PROCESS
    if move.next is Rung.IN_JOB and (fault.stalled or in_process):
        plan = plan.write(restart_requests=plan.status.restart_requests + 1)
    return _start_run(plan, fault) if move.replace is Replace.RUN else plan


def is_lost_coordinator(fault: Fault) -> bool:
    """Whether the coordinator pod has to be replaced; a lost nvrx-control alone needs no pod."""
    return fault.fault_class is FaultClass.CONTROL_LOST and fault.told_by == "cluster"


def _start_run(plan: Plan, fault: Fault) -> Plan:
    if plan.status.run == plan.seen.job.status.run:
        # Only once in a pass: nobody could have joined the one before.
        plan = plan.write(run=plan.status.run + 1, round=-1)
        text = f"Run {plan.status.run} starts in place: {fault.reason}"
        plan = plan.tell("Warning", EventReason.GANG_RESTARTED, text)
    if plan.status.recovery is None:
        return plan
    return plan.write(recovery=changed(plan.status.recovery, run=plan.status.run, round=-1))


def _merged(old: Recovery | None, new: Recovery) -> Recovery:
    """The reservation of an incident that a further fault joined."""
    if old is None:
        return new
    first = {
        "number": old.number,
        "detected_time": old.detected_time,
        "detected_unix": old.detected_unix,
        "detected_seconds": old.detected_seconds,
        "stalled_unix": reservation.earliest(old.stalled_unix, new.stalled_unix),
        "decided_unix": old.decided_unix,
        "waited_seconds": old.waited_seconds,
        "waiting_unix": old.waiting_unix,
        "step": max(old.step, new.step),
    }
    if new.rung.height > old.rung.height or takes_over(old.fault_class, new.fault_class):
        rung = higher(old.rung, new.rung)
        return changed(new, **first, rung=rung, fault=new.fault or old.fault)
    return changed(
        old,
        deadline_time=new.deadline_time,
        fault=new.fault or old.fault,
        stalled_unix=first["stalled_unix"],
    )
