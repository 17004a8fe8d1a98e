"""The coordinator and nvrx-control: which incarnation counts, and what their loss means.

A lost coordinator pod is replaced by its next incarnation and the Service re-pinned; a lost
nvrx-control alone needs no pod. Either way a new run starts in place and workers stay.
A view that does not arrive is no proof of loss: it may be the operator who is cut off. Nor is a
node that is not ready, where most of them look so.
"""

from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import EventReason
from rtj_api.status import CoordinatorStatus
from rtj_operator.policy.decision import Action, CreatePod, EnsureChildren
from rtj_operator.policy.evidence import Finding, finding, gone
from rtj_operator.policy.faults import Verdict
from rtj_operator.policy.ladder import take
from rtj_operator.policy.nodes import excluded_names, kept_off_in_vain
from rtj_operator.policy.outage import held
from rtj_operator.policy.pending import UNREADY_SECONDS, Signal, lasted, settled
from rtj_operator.policy.plan import Plan, changed


def meet(plan: Plan) -> Plan:
    """The plan with the coordinator pod known to have been made, once it is there."""
    if plan.coordinator is None:
        return plan
    return plan.write(coordinator=changed(plan.status.coordinator, seen=True))


def replace_lost(plan: Plan) -> Plan:
    """A new coordinator and run when the one that counts is lost."""
    if not plan.training:
        return plan
    plan, found = _loss(plan)
    if found is None:
        return plan
    verdict = Verdict(
        fault_class=FaultClass.CONTROL_LOST,
        rung=Rung.GANG,
        reason=f"coordinator lost: {found.reason}",
        incarnation=plan.status.coordinator.incarnation,
        run=plan.status.run,
        round=plan.status.round,
        detected_unix=plan.now,
        step=plan.view.highest_step if plan.view else -1,
    )
    if plan.coordinator is not None:
        plan = settled(plan, plan.coordinator.name)
    plan = next_incarnation(plan)
    plan = plan.tell("Warning", EventReason.COORDINATOR_REPLACED, verdict.reason)
    return take(plan, verdict)


def _loss(plan: Plan) -> tuple[Plan, Finding | None]:
    pod = plan.coordinator
    if pod is None:
        return plan, gone("the coordinator") if plan.status.coordinator.seen else None
    found = finding(plan, pod)
    if found is None or found.fault_class is not FaultClass.NODE_LOST:
        return plan, found
    if plan.live_view is not None:
        return plan, None
    over = plan.view is not None and plan.seen.view_lost_seconds >= UNREADY_SECONDS
    if not over:
        plan, over = lasted(plan, Signal.NODE_UNREADY, pod.name, UNREADY_SECONDS)
    if not over:
        return plan, None
    plan, wait = held(plan, pod)
    return plan, None if wait else found


def next_incarnation(plan: Plan) -> Plan:
    """The plan with the coordinator's next incarnation, which numbers its reports anew."""
    live = (pod.incarnation for pod in plan.seen.pods if pod.role == "coordinator")
    incarnation = 1 + max((plan.status.coordinator.incarnation, *live))
    recovery = plan.status.recovery
    return plan.write(
        coordinator=CoordinatorStatus(incarnation=incarnation),
        recovery=changed(recovery, fault=0) if recovery else None,
    )


def let_loose(plan: Plan) -> Plan:
    """The plan with a new coordinator pod for one that waits as `workers.let_loose` says: nothing
    has run in it yet."""
    pod = plan.coordinator
    if pod is None or not plan.training:
        return plan
    plan, in_vain = kept_off_in_vain(plan, pod)
    if not in_vain:
        return plan
    text = f"pod {pod.name} waits and may use nodes again that it avoids"
    return next_incarnation(plan).tell("Normal", EventReason.COORDINATOR_REPLACED, text)


def children(plan: Plan) -> tuple[Action, ...]:
    """Services, Secret and policy, and the coordinator pod, as far as they are missing."""
    if not plan.live:
        return ()
    incarnation = plan.status.coordinator.incarnation
    ensure = EnsureChildren(coordinator_incarnation=incarnation)
    if plan.coordinator is not None or plan.stopping:
        return (ensure,)
    pod = CreatePod(
        role="coordinator",
        slot=0,
        incarnation=incarnation,
        zone=plan.status.zone,
        excluded_nodes=excluded_names(plan),
    )
    return (ensure, pod)
