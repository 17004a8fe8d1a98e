"""Takes in, once each, what the coordinator reports and what the cluster alone has seen.

The coordinator's report comes first where it may still come: it knows position, step and moment.
The cluster's word stands alone for pods that never connected, and when no view arrives.
"""

from rtj_api.messages import FaultReport, JobView
from rtj_operator.policy import budgets
from rtj_operator.policy.evidence import Finding, finding, gone
from rtj_operator.policy.faults import SETTLE_SECONDS, Verdict, begin_to_judge, grown, judge, stale
from rtj_operator.policy.ladder import take, together
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.outage import held
from rtj_operator.policy.pending import UNREADY_SECONDS, Signal, lasted, settled
from rtj_operator.policy.plan import Plan, changed, dead
from rtj_operator.policy.recovery import end_recovered


def reports(plan: Plan) -> Plan:
    """Absorb the coordinator's new fault reports in order, up to one that cannot be judged yet."""
    view = plan.view
    if view is None or not plan.training:
        return plan
    plan = _restarted(plan, view)
    plan = _counters(plan, view)
    for i, report in enumerate(view.faults):
        known = report.number <= plan.status.coordinator.absorbed_fault
        if known and not grown(plan, report):
            continue
        plan, absorbed = _absorb(plan, report)
        if known:
            continue
        if not absorbed:
            for waiting in view.faults[i + 1 :]:
                plan = begin_to_judge(plan, waiting)
            break
        coordinator = changed(plan.status.coordinator, absorbed_fault=report.number)
        plan = plan.write(coordinator=coordinator)
        if not plan.training:
            break
    return plan


def _absorb(plan: Plan, report: FaultReport) -> tuple[Plan, bool]:
    if stale(plan, report):
        return _enrich(plan, report), True
    plan, verdict = judge(plan, report)
    if verdict is None:
        return plan, False
    if not together(plan, verdict):
        plan = end_recovered(plan, report.step)
    return take(plan, verdict), True


def _enrich(plan: Plan, report: FaultReport) -> Plan:
    """The report of a loss on which the cluster's word was already acted: it measures better."""
    recovery = plan.status.recovery
    if recovery is None or recovery.fault or report.kind != "worker":
        return plan
    if (recovery.slot, recovery.incarnation) != (report.slot, report.incarnation):
        return plan
    return plan.write(
        recovery=changed(
            recovery,
            fault=report.number,
            rank=report.rank if report.rank >= 0 else recovery.rank,
            detected_seconds=report.detected_seconds,
        )
    )


def _restarted(plan: Plan, view: JobView) -> Plan:
    """A coordinator process that restarted within its pod numbers its reports from 1 again."""
    newest = max((report.number for report in view.faults), default=0)
    known = plan.status.coordinator
    if newest >= known.absorbed_fault:
        return plan
    return plan.write(
        coordinator=changed(known, absorbed_fault=0, absorbed_in_process=0, absorbed_in_job=0)
    )


def _counters(plan: Plan, view: JobView) -> Plan:
    """Count restarts whose reports fell off the coordinator's bounded list, by its counters."""
    known = plan.status.coordinator
    fresh = [r for r in view.faults if r.number > known.absorbed_fault]
    if not fresh:
        return plan
    if fresh[0].number > known.absorbed_fault + 1:
        told = {kind: sum(r.kind == kind for r in fresh) for kind in ("exception", "exit")}
        in_process = view.in_process_restarts - known.absorbed_in_process - told["exception"]
        in_job = view.in_job_restarts - known.absorbed_in_job - told["exit"]
        restarts = plan.status.restarts
        restarts = changed(
            restarts,
            in_process=restarts.in_process + max(0, in_process),
            in_job=restarts.in_job + max(0, in_job),
        )
        plan = plan.write(restarts=budgets.summed(restarts))
    return plan.write(
        coordinator=changed(
            known,
            absorbed_in_process=view.in_process_restarts,
            absorbed_in_job=view.in_job_restarts,
        )
    )


def lost_pods(plan: Plan) -> Plan:
    """Absorb worker pods that the cluster shows as lost and no report has told of."""
    present, awaited = plan.workers(), frozenset(plan.status.awaited)
    for slot in plan.slots:
        if slot in awaited and slot not in present:
            continue
        if not plan.training:
            return plan
        plan = _look_at(plan, slot, present.get(slot))
    return plan


def _look_at(plan: Plan, slot: int, pod: PodObservation | None) -> Plan:
    if pod is None:
        return _vanished(plan, slot)
    found = finding(plan, pod)
    if found is None or (pod.termination and pod.termination.outcome == "finished"):
        return plan
    plan, sure = _sure(plan, pod)
    if not sure:
        return plan
    plan = _take(plan, slot, pod, found)
    return settled(plan, pod.name) if plan.incarnation(slot) != pod.incarnation else plan


def _sure(plan: Plan, pod: PodObservation) -> tuple[Plan, bool]:
    """Whether to act on the cluster's word alone by now."""
    connected = _connected(plan, pod)
    if dead(pod) or pod.deleting or pod.disruption:
        if connected is None or pod.deleting or pod.disruption:
            return plan, True
        sign = Signal.JUDGING_SPARE if _not_needed(plan, pod.slot) else Signal.JUDGING
        return lasted(plan, sign, pod.name, SETTLE_SECONDS)
    if connected:
        return plan, False
    plan, over = lasted(plan, Signal.NODE_UNREADY, pod.name, UNREADY_SECONDS)
    if not over:
        return plan, False
    plan, wait = held(plan, pod)
    return plan, not wait


def _connected(plan: Plan, pod: PodObservation) -> bool | None:
    """Whether the pod's agent is connected; None: no view, or never heard of."""
    view = plan.live_view
    if view is None:
        return None
    return next((plan.hears(w) for w in view.workers if w.pod_uid == pod.uid), None)


def _vanished(plan: Plan, slot: int) -> Plan:
    """A pod that is not there was lost if it has been seen; otherwise it is still to be made."""
    incarnation = plan.incarnation(slot)
    return _take(plan, slot, None, gone(f"slot {slot}, incarnation {incarnation}"))


def _take(plan: Plan, slot: int, pod: PodObservation | None, found: Finding) -> Plan:
    view = plan.view
    verdict = Verdict(
        fault_class=found.fault_class,
        rung=found.rung,
        reason=found.reason,
        slot=slot,
        incarnation=plan.incarnation(slot),
        pod=pod,
        lost=True,
        spare=_not_needed(plan, slot),
        step=view.highest_step if view is not None else -1,
        run=plan.status.run,
        round=view.round if view is not None else plan.status.round,
        detected_unix=plan.now,
    )
    return take(end_recovered(plan), verdict)


def _not_needed(plan: Plan, slot: int) -> bool:
    """Whether all positions are held by other slots' workers."""
    view = plan.live_view
    if view is None or view.run != plan.status.run:
        return False
    held = {w.position for w in view.workers if w.slot != slot and plan.hears(w)}
    return held >= set(range(plan.nodes))
