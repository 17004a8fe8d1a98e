"""The recovery under way: its reservation in status, and its end by a new step or in history."""

from rtj_api.ladder import Rung
from rtj_api.messages import FaultReport
from rtj_api.reasons import EventReason
from rtj_api.status import HISTORY_MAX, HistoryEntry, ObjectRef, Recovery
from rtj_operator.policy import goodput, nodes
from rtj_operator.policy.attribution import BLAMELESS
from rtj_operator.policy.faults import Verdict
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.times import rfc3339


def next_number(plan: Plan) -> int:
    """Number of the next recovery of the job."""
    current = plan.status.recovery
    taken = [entry.number for entry in plan.status.history]
    return max((*taken, current.number if current else 0), default=0) + 1


def reserve(plan: Plan, verdict: Verdict, rung: Rung) -> Recovery:
    """The reservation for a verdict at a rung."""
    pod = verdict.pod
    detected = min(verdict.detected_unix or plan.now, plan.now)
    return Recovery(
        number=next_number(plan),
        rung=rung,
        fault_class=verdict.fault_class,
        slot=verdict.slot,
        incarnation=verdict.incarnation,
        pod=ObjectRef(name=pod.name, uid=pod.uid) if pod else None,
        node=nodes.ref(plan, pod.node) if pod else None,
        rank=verdict.rank,
        reason=verdict.reason,
        detected_time=rfc3339(detected),
        detected_unix=detected,
        detected_seconds=verdict.detected_seconds,
        deadline_time=deadline(plan, rung),
        step=max(verdict.step, plan.status.progress.highest_step),
        fault=verdict.fault,
        run=max(verdict.run, plan.status.run),
        round=verdict.round,
    )


def deadline(plan: Plan, rung: Rung) -> str:
    """When a recovery of that rung that starts now must have brought a new step."""
    seconds = 0 if rung is Rung.FAILED else plan.rung_spec(rung).deadline_seconds
    return rfc3339(plan.now + seconds)


def report_of(plan: Plan, recovery: Recovery) -> FaultReport | None:
    """The coordinator's report behind a recovery, if this coordinator has it."""
    view = plan.view
    if view is None or recovery.fault == 0:
        return None
    return next((r for r in view.faults if r.number == recovery.fault), None)


def end_recovered(plan: Plan, step: int = -1) -> Plan:
    """The plan without its recovery, if a new step came: by the report, the view or `step`."""
    recovery = plan.status.recovery
    if recovery is None or not plan.training:
        return plan
    report = report_of(plan, recovery)
    told = report is not None and report.recovered_seconds is not None
    if not told and max(_reached(plan, report), step) <= recovery.step:
        return plan
    return _end(plan, recovery, report)


def end_by_completion(plan: Plan) -> Plan:
    """The plan without its recovery, when training reached its end in spite of the fault."""
    recovery = plan.status.recovery
    return plan if recovery is None else _end(plan, recovery, report_of(plan, recovery))


def _end(plan: Plan, recovery: Recovery, report: FaultReport | None) -> Plan:
    end = plan.now
    if report is not None and report.recovered_seconds is not None:
        end = report.detected_unix + report.recovered_seconds
    # After a climb the report counts from the fault, the recovery from the climb.
    seconds = max(0.0, end - recovery.detected_unix)
    plan = _into_history(plan, recovery, seconds, steps_lost(recovery.step, report))
    plan = plan.write(recovery=None, restarts_without_progress=0)
    spare = report.replaced_by_slot if report is not None else -1
    taken = f" (slot {spare} took the place)" if spare >= 0 else ""
    text = f"Training goes on {seconds:.1f} s after: {recovery.reason}{taken}"
    return plan.tell("Normal", EventReason.RECOVERED, text)


def steps_lost(step: int, report: FaultReport | None) -> int | None:
    """How many steps up to that one are done again, as the report tells; None: it does not."""
    if report is None or report.resumed_step < 0:
        return None
    return max(0, step - report.resumed_step)


def _reached(plan: Plan, report: FaultReport | None) -> int:
    """The step that counts as new: of all ranks where the report is about to say so itself, of any
    rank where no report will."""
    view = plan.view
    if view is None or view.run < plan.status.run:
        return -1
    return view.step if report is not None else view.highest_step


def end_without_step(plan: Plan, recovery: Recovery) -> Plan:
    """The plan with that recovery in history as one that brought no new step."""
    plan = _into_history(plan, recovery, None, None)
    if recovery.fault_class in BLAMELESS:
        return plan
    return plan.write(restarts_without_progress=plan.status.restarts_without_progress + 1)


def end_unseen(plan: Plan, recovery: Recovery) -> Plan:
    """The plan with that recovery in history as one whose success no step tells."""
    plan = _into_history(plan, recovery, None, None)
    text = f"All ranks run again, of a script that tells no steps, after: {recovery.reason}"
    return plan.write(recovery=None).tell("Normal", EventReason.RECOVERED, text)


def give_up(plan: Plan) -> Plan:
    """The plan without its recovery, since the job stops; what it took is lost all the same."""
    recovery = plan.status.recovery
    if recovery is None:
        return plan
    begin = recovery.detected_unix - recovery.detected_seconds
    return goodput.lose(plan, recovery.rung, begin, plan.now).write(recovery=None)


def remember(
    plan: Plan, verdict: Verdict, rung: Rung, seconds: float = 0.0, lost_steps: int | None = 0
) -> Plan:
    """The plan with a fault in history that is over, or that training did not feel (a spare's)."""
    entry = reserve(plan, verdict, rung)
    return _into_history(plan, entry, seconds, lost_steps, felt=not verdict.spare)


def _into_history(
    plan: Plan,
    recovery: Recovery,
    recovered_seconds: float | None,
    lost_steps: int | None,
    *,
    felt: bool = True,
) -> Plan:
    entry = HistoryEntry(
        number=recovery.number,
        rung=recovery.rung,
        fault_class=recovery.fault_class,
        suspect=recovery.node.name if recovery.node else "",
        slot=recovery.slot,
        rank=recovery.rank,
        reason=recovery.reason,
        detected_time=recovery.detected_time,
        detected_seconds=round(recovery.detected_seconds, 3),
        recovered_seconds=None if recovered_seconds is None else round(recovered_seconds, 3),
        lost_steps=lost_steps,
    )
    history = (*plan.status.history, entry)[-HISTORY_MAX:]
    if felt:
        detected = recovery.detected_unix
        end = plan.now if recovered_seconds is None else detected + recovered_seconds
        plan = goodput.lose(plan, recovery.rung, detected - recovery.detected_seconds, end)
    plan = plan.count(recovery.rung.value, recovery.fault_class.value)
    return plan.write(history=history)


def renewed(plan: Plan, recovery: Recovery) -> Recovery:
    """The recovery with its deadline counted from now."""
    return changed(recovery, deadline_time=deadline(plan, recovery.rung))
