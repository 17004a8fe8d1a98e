"""The next rung for an incident whose deadline passed without a new step."""

from rtj_api.ladder import Rung
from rtj_api.messages import JobView
from rtj_api.status import Recovery
from rtj_operator.policy.incident import ends, reservation
from rtj_operator.policy.incident.carry_out import carry_out
from rtj_operator.policy.incident.transitions import Outcome, Suspect, transition
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.fault import Batch, Fault
from rtj_operator.policy.times import unix

# Rungs that NVRx takes by itself before the operator hears of the fault.
_BY_ITSELF = frozenset({Rung.IN_PROCESS, Rung.IN_JOB})


def climb_overdue(plan: Plan, batch: Batch, *, gang_incomplete: bool) -> Plan:
    """The plan with the next rung reserved, when the open incident is overdue.

    Not while workers are missing (the start deadline rules that wait), and not while training is
    on its way back to where it was, however far behind its last checkpoint lay.
    """
    current = plan.status.recovery
    if current is None or not plan.training or gang_incomplete:
        return plan
    due = unix(current.deadline_time)
    if plan.now < due:
        return plan.wake_at(due)
    if _tells_no_steps(plan):
        return reservation.end_unseen(plan, current)
    replayed = _replayed_step(plan, current)
    if replayed >= 0:
        put_off = changed(reservation.renewed(plan, current), replayed_step=replayed)
        return plan.write(recovery=put_off).wake_at(unix(put_off.deadline_time))
    return _climb(plan, current, batch)


def _climb(plan: Plan, current: Recovery, batch: Batch) -> Plan:
    plan = reservation.end_without_step(plan, current)
    pod = plan.pod_of_slot(current.slot)
    if pod is None or current.node is None or pod.node != current.node.name:
        # Where the replacement runs, nobody is suspected.
        pod = None
    suspect = Suspect.NOBODY
    if current.slot is not None:
        suspect = Suspect.WORKER if pod is None else Suspect.NODE
    move = transition(current.fault_class, current.rung, Outcome.OVERDUE, suspect)
    seconds = int(plan.now - unix(current.detected_time))
    told = current.reason.removeprefix("no new step ").partition(" after: ")
    fault = Fault(
        fault_class=current.fault_class,
        reason=f"no new step {seconds} s after: {told[2] or current.reason}",
        told_by="deadline",
        slot=current.slot,
        incarnation=current.incarnation,
        pod=pod,
        rank=current.rank,
        step=current.step,
        report=current.fault,
        run=current.run,
        round=plan.view.round if plan.view else current.round,
        stalled=True,
        detected_unix=plan.now,
        stalled_unix=plan.now,
    )
    if move.next is Rung.FAILED or ends.has_no_progress(plan):
        plan = plan.write(recovery=changed(current, rung=Rung.FAILED, number=current.number + 1))
        return ends.fail_no_progress(plan, fault.reason)
    return carry_out(plan, fault, move, batch)


def _tells_no_steps(plan: Plan) -> bool:
    """Whether all ranks live of a script that has never told a step: steps cannot judge it."""
    view = plan.live_view
    if view is None or view.run != plan.status.run or plan.trained:
        return False
    return _all_ranks_train(plan, view)


def _replayed_step(plan: Plan, current: Recovery) -> int:
    """The step that training has come back to by now, -1 if it is not seen moving."""
    view = plan.live_view
    if view is None or view.run != plan.status.run or view.step <= current.replayed_step:
        return -1
    report = reservation.report_of(plan, current)
    if report is not None and current.rung in _BY_ITSELF:
        return view.step if 0 <= report.resumed_step < view.step else -1
    return view.step if _all_ranks_train(plan, view) else -1


def _all_ranks_train(plan: Plan, view: JobView) -> bool:
    return view.ranks_training >= plan.nodes * plan.processes_per_node
