"""Worker pods that the cluster shows as lost, of which no report tells: those that never connected,
and all of them when no view arrives."""

from rtj_operator.policy.clocks import Clock
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan, dead
from rtj_operator.policy.signals.evidence import Finding, finding, gone
from rtj_operator.policy.signals.fault import Fault
from rtj_operator.policy.signals.reports import SETTLE_SECONDS
from rtj_operator.policy.signals.sight import UNREADY_SECONDS, Sight


def find_lost_pods(sight: Sight) -> list[Fault]:
    """Faults of worker pods, by the cluster's word alone."""
    present, running = sight.plan.worker_pods(), sight.plan.running_workers()
    awaited = frozenset(sight.plan.status.awaited)
    faults: list[Fault] = []
    for slot in sight.plan.slots:
        pod = present.get(slot)
        if pod is None:
            if slot not in awaited:
                faults.append(_vanished(sight.plan, slot))
            continue
        if slot in running and not pod.disruption and not sight.plan.node_lost(pod):
            continue
        found = finding(sight.plan, pod)
        if found is None or (pod.termination and pod.termination.outcome == "finished"):
            continue
        if _is_sure(sight, pod):
            faults.append(_fault(sight.plan, slot, pod, found))
    return faults


def last_step_unix(plan: Plan) -> float:
    """When the ranks made their newest step that was heard of; 0: not known."""
    view = plan.view
    if view is None or view.step_age_seconds < 0:
        return 0.0
    return plan.now - plan.seen.view_lost_seconds - view.step_age_seconds


def _is_sure(sight: Sight, pod: PodObservation) -> bool:
    """Whether to act on the cluster's word by now. The coordinator's report comes first where it
    may still come: it knows position, step and moment."""
    heard = _is_heard(sight.plan, pod)
    if dead(pod) or pod.deleting or pod.disruption:
        if heard is None or pod.deleting or pod.disruption:
            return True
        clock = Clock.JUDGING_SPARE if _is_not_needed(sight.plan, pod.slot) else Clock.JUDGING
        return sight.lasted(clock, pod.name, SETTLE_SECONDS)
    if heard:
        return False
    if not sight.lasted(Clock.NODE_UNREADY, pod.name, UNREADY_SECONDS):
        return False
    return not sight.may_live(pod)


def _is_heard(plan: Plan, pod: PodObservation) -> bool | None:
    """Whether the coordinator hears the pod's agent; None: no view, or never heard of."""
    told = plan.told_of(pod) if plan.live_view is not None else None
    return None if told is None else plan.hears(told)


def _vanished(plan: Plan, slot: int) -> Fault:
    """A pod that is not there was lost if it has been seen; otherwise it is still to be made."""
    name = f"slot {slot}, incarnation {plan.incarnation(slot)}"
    return _fault(plan, slot, None, gone(name))


def _fault(plan: Plan, slot: int, pod: PodObservation | None, found: Finding) -> Fault:
    view = plan.view
    return Fault(
        fault_class=found.fault_class,
        reason=found.reason,
        told_by="cluster",
        slot=slot,
        incarnation=plan.incarnation(slot),
        pod=pod,
        lost=True,
        off_node=found.off_node,
        spare=_is_not_needed(plan, slot),
        step=view.highest_step if view is not None else -1,
        run=plan.status.run,
        round=view.round if view is not None else plan.status.round,
        detected_unix=plan.now,
        stalled_unix=last_step_unix(plan),
    )


def _is_not_needed(plan: Plan, slot: int) -> bool:
    """Whether all positions are held by other slots' workers."""
    view = plan.live_view
    if view is None or view.run != plan.status.run:
        return False
    held = {w.position for w in view.workers if w.slot != slot and plan.hears(w)}
    return held >= set(range(plan.nodes))
