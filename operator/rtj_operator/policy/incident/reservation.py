"""The open incident: its reservation in status, and its end by a new step or in history."""

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import FaultReport
from rtj_api.reasons import EventReason
from rtj_api.status import HISTORY_MAX, HistoryEntry, ObjectRef, Recovery
from rtj_operator.policy.incident.same import BLAMELESS
from rtj_operator.policy.nodes.exclusion import ref
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.shown import goodput
from rtj_operator.policy.signals.fault import Fault
from rtj_operator.policy.times import rfc3339, unix


def next_number(plan: Plan) -> int:
    """Number of the next recovery of the job."""
    current = plan.status.recovery
    taken = [entry.number for entry in plan.status.history]
    return max((*taken, current.number if current else 0), default=0) + 1


def reserve(plan: Plan, fault: Fault, rung: Rung) -> Recovery:
    """The reservation of a rung for a fault."""
    pod = fault.pod
    detected = min(fault.detected_unix or plan.now, plan.now)
    still = fault.stalled_unix or detected - fault.detected_seconds
    return Recovery(
        number=next_number(plan),
        rung=rung,
        fault_class=fault.fault_class,
        slot=fault.slot,
        incarnation=fault.incarnation,
        pod=ObjectRef(name=pod.name, uid=pod.uid) if pod else None,
        node=ref(plan, pod.node) if pod else None,
        rank=fault.rank,
        reason=fault.reason,
        detected_time=rfc3339(detected),
        stalled_unix=min(still, detected),
        detected_unix=detected,
        decided_unix=plan.now,
        detected_seconds=fault.detected_seconds,
        deadline_time=deadline(plan, rung),
        step=max(fault.step, plan.status.progress.highest_step),
        fault=fault.report,
        run=max(fault.run, plan.status.run),
        round=fault.round,
    )


def earliest(one: float, other: float) -> float:
    """The earlier of two times of which either may be 0, unknown."""
    return min(one, other) if one and other else one or other


def deadline(plan: Plan, rung: Rung) -> str:
    """When a recovery of that rung that starts now must have brought a new step. Before the first
    step of all, ranks may load for as long as the spec lets them."""
    seconds = 0 if rung is Rung.FAILED else plan.limits(rung).deadline_seconds
    if not plan.trained and rung is not Rung.FAILED:
        seconds = max(seconds, plan.spec.resilience.heartbeat.initial_rank_timeout_seconds)
    return rfc3339(plan.now + seconds)


def renewed(plan: Plan, recovery: Recovery) -> Recovery:
    """The recovery with its deadline counted from now."""
    return changed(recovery, deadline_time=deadline(plan, recovery.rung))


def report_of(plan: Plan, recovery: Recovery) -> FaultReport | None:
    """The coordinator's report behind a recovery, if this coordinator has it."""
    view = plan.view
    if view is None or recovery.fault == 0:
        return None
    return next((r for r in view.faults if r.number == recovery.fault), None)


def is_recent(plan: Plan, entry: HistoryEntry) -> bool:
    """Whether an incident ended so lately that training is not stable yet."""
    if entry.detected_time is None:
        return False
    ended = unix(entry.detected_time) + (entry.recovered_seconds or 0.0)
    return plan.now - ended <= plan.spec.resilience.progress.stable_period_seconds


# --- its course ---


def measure(plan: Plan) -> Plan:
    """The plan with what the open recovery waits for measured: pods that are missing, and the first
    step that ranks make again."""
    recovery = plan.status.recovery
    if recovery is None or not plan.training:
        return plan
    missing = len(plan.running_workers()) < plan.nodes
    if missing and not recovery.waiting_unix:
        recovery = changed(recovery, waiting_unix=plan.now)
    elif not missing and recovery.waiting_unix:
        waited = recovery.waited_seconds + plan.now - recovery.waiting_unix
        recovery = changed(recovery, waited_seconds=round(waited, 3), waiting_unix=0.0)
    report = report_of(plan, recovery)
    if report is not None and report.resumed_seconds is not None:
        resumed = max(recovery.decided_unix, report.detected_unix + report.resumed_seconds)
        if not recovery.resumed_unix:
            recovery = changed(recovery, resumed_unix=resumed)
    return plan.write(recovery=recovery)


# --- its end ---


def end_recovered(plan: Plan, step: int = -1) -> Plan:
    """The plan without its recovery, if a new step came: by the report, the view or `step`."""
    recovery = plan.status.recovery
    if recovery is None or not plan.training:
        return plan
    report = report_of(plan, recovery)
    told = report is not None and report.recovered_seconds is not None
    if not told and max(_reached_step(plan, report), step) <= recovery.step:
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


def _reached_step(plan: Plan, report: FaultReport | None) -> int:
    """The step that counts as new: of all ranks where the report is about to say so itself, of any
    rank where no report will."""
    view = plan.view
    if view is None or view.run < plan.status.run:
        return -1
    return view.step if report is not None else view.highest_step


def end_without_step(plan: Plan, recovery: Recovery) -> Plan:
    """The plan with that recovery in history as one that brought no new step."""
    plan = _into_history(plan, recovery, None, None)
    if recovery.fault_class in BLAMELESS or _is_of_the_cluster(plan, recovery):
        return plan
    return plan.write(restarts_without_progress=plan.status.restarts_without_progress + 1)


def _is_of_the_cluster(plan: Plan, recovery: Recovery) -> bool:
    """Whether a job that has not trained yet lost a node: its start has a deadline, and nodes that
    come and go meanwhile say nothing of the program."""
    return not plan.trained and recovery.fault_class is FaultClass.NODE_LOST


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
    return goodput.lose(plan, recovery, plan.now).write(recovery=None)


def remember(
    plan: Plan, fault: Fault, rung: Rung, seconds: float = 0.0, lost_steps: int | None = 0
) -> Plan:
    """The plan with a fault in history that is over, or that training did not feel (a spare's)."""
    entry = reserve(plan, fault, rung)
    return _into_history(plan, entry, seconds, lost_steps, felt=not fault.spare)


def _into_history(
    plan: Plan,
    recovery: Recovery,
    recovered_seconds: float | None,
    lost_steps: int | None,
    *,
    felt: bool = True,
) -> Plan:
    detected = recovery.detected_unix
    end = plan.now if recovered_seconds is None else detected + recovered_seconds
    entry = HistoryEntry(
        number=recovery.number,
        rung=recovery.rung,
        fault_class=recovery.fault_class,
        suspect=recovery.node.name if recovery.node else "",
        suspect_uid=recovery.node.uid if recovery.node else "",
        slot=recovery.slot,
        rank=recovery.rank,
        reason=recovery.reason,
        detected_time=recovery.detected_time,
        detected_seconds=round(recovery.detected_seconds, 3),
        recovered_seconds=None if recovered_seconds is None else round(recovered_seconds, 3),
        lost_steps=lost_steps,
        lost=goodput.parts_of(recovery, end) if felt else None,
    )
    history = (*plan.status.history, entry)[-HISTORY_MAX:]
    if felt:
        plan = goodput.lose(plan, recovery, end)
    plan = plan.count(recovery.rung.value, recovery.fault_class.value)
    return plan.write(history=history)
