"""Whether the coordinator is lost: its pod ended, its node is gone, or nobody reaches it.

A view that does not arrive is no proof by itself: it may be the operator who is cut off. The
standby coordinator tells, by what the workers hear of the first.
"""

from typing import Final

from rtj_api.ladder import FaultClass
from rtj_operator.policy.clocks import COORDINATOR, Clock
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.evidence import finding, gone
from rtj_operator.policy.signals.fault import Fault
from rtj_operator.policy.signals.pods import last_step_unix
from rtj_operator.policy.signals.sight import UNREADY_SECONDS, Sight

# Seconds for which the workers must have heard nothing of the coordinator, by the standby's view.
# They hear it every second.
SILENT_SECONDS: Final = 2.0
# Seconds a coordinator that hears nobody is given: by then Kubernetes calls dead nodes not ready.
UNHEARD_SECONDS: Final = 60.0


def find_lost_coordinator(sight: Sight) -> Fault | None:
    """The fault of a lost coordinator, if it is lost."""
    reason = _loss(sight)
    if reason is None:
        return None
    plan = sight.plan
    view = plan.view
    return Fault(
        fault_class=FaultClass.CONTROL_LOST,
        reason=f"coordinator lost: {reason}",
        told_by="cluster",
        pod=plan.coordinator,
        incarnation=plan.status.coordinator.incarnation,
        run=plan.status.run,
        round=plan.status.round,
        detected_unix=plan.now,
        step=view.highest_step if view is not None else -1,
        stalled_unix=last_step_unix(plan),
    )


def _loss(sight: Sight) -> str | None:
    plan = sight.plan
    pod = plan.coordinator
    if pod is None:
        return gone("the coordinator").reason if plan.status.coordinator.seen else None
    if workers_lost_coordinator(plan):
        return f"neither workers nor operator hear pod {pod.name} on node {pod.node}"
    if sight.nobody_heard and _is_deaf(sight):
        return f"pod {pod.name} on node {pod.node} hears none of its workers, whose nodes are ready"
    found = finding(plan, pod)
    if found is None:
        return None
    if found.fault_class is not FaultClass.NODE_LOST:
        return found.reason
    if plan.live_view is not None:
        return None
    unheard = plan.view is not None and plan.seen.view_lost_seconds >= UNREADY_SECONDS
    if not unheard and not sight.lasted(Clock.NODE_UNREADY, pod.name, UNREADY_SECONDS):
        return None
    return None if sight.may_live(pod) else found.reason


def workers_lost_coordinator(plan: Plan) -> bool:
    """Whether the workers that the standby hears, at least half as many as train, have all lost the
    coordinator that the operator does not hear either."""
    view = plan.seen.standby_view
    if plan.live_view is not None or view is None or not plan.seen.standby_connected:
        return False
    if view.coordinator_incarnation != plan.status.coordinator.standby_incarnation:
        return False
    active = plan.status.coordinator.incarnation
    heard = [w for w in view.workers if plan.hears(w) and w.obeys_incarnation == active]
    lost = [w for w in heard if w.coordinator_silent_seconds >= SILENT_SECONDS]
    return 0 < len(heard) == len(lost) and 2 * len(heard) >= plan.nodes


def _is_deaf(sight: Sight) -> bool:
    """Whether a coordinator has heard no worker for so long that their nodes, were they to blame,
    would not be ready."""
    pods = list(sight.plan.running_workers().values())
    if not pods or any(sight.plan.node_lost(pod) for pod in pods):
        return False
    if not sight.lasted(Clock.UNHEARD, COORDINATOR, UNHEARD_SECONDS):
        return False
    sight.seen.discard((Clock.UNHEARD, COORDINATOR))
    return True
