"""The coordinator pod that counts, the standby that waits to take over, and their children.

A lost coordinator is replaced by its standby, which runs already, or by its next incarnation; the
Service is pinned anew, a new run starts in place and workers stay. A lost standby costs nothing.
"""

from typing import Final

from rtj_api.reasons import EventReason
from rtj_api.status import CoordinatorStatus
from rtj_operator.policy.decision import Action, CreatePod, EnsureChildren
from rtj_operator.policy.nodes.exclusion import excluded_names, kept_off_in_vain
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan, changed, runs
from rtj_operator.policy.signals.evidence import finding

# A standby that ends again and again is made anew this often at most.
STANDBY_SECONDS: Final = 30.0


def mark_coordinator_seen(plan: Plan) -> Plan:
    """The plan with the coordinator pods known to have been made that are there."""
    coordinator = plan.status.coordinator
    if plan.coordinator is not None:
        coordinator = changed(coordinator, seen=True)
    if plan.standby is not None:
        coordinator = changed(coordinator, standby_seen=True)
    return plan.write(coordinator=coordinator)


def pass_over_occupied_names(plan: Plan) -> Plan:
    """The plan with the coordinator's next incarnation, where the pod of an earlier job of this
    name holds its name."""
    coordinator, occupied = plan.status.coordinator, plan.seen.coordinator_occupied
    if not plan.live or plan.coordinator is not None or coordinator.incarnation > occupied:
        return plan
    return plan.write(coordinator=CoordinatorStatus(incarnation=_free_incarnation(plan)))


def replace_coordinator(plan: Plan, reason: str) -> Plan:
    """The plan with the standby in the place of the coordinator, or with its next incarnation."""
    plan = next_incarnation(plan)
    return plan.tell("Warning", EventReason.COORDINATOR_REPLACED, reason)


def fresh_incarnation(plan: Plan) -> Plan:
    """The plan with a coordinator that is made anew, for a run that is: the standby was made from
    what the last one was."""
    return plan.write(coordinator=CoordinatorStatus(incarnation=_free_incarnation(plan)))


def next_incarnation(plan: Plan) -> Plan:
    """The plan with the coordinator's next incarnation, which numbers its reports anew: the
    standby's if it runs."""
    standby = plan.standby
    incarnation = _free_incarnation(plan)
    # A leader that has just begun hears nobody yet.
    heard = plan.seen.standby_connected or plan.seen.view is None
    ready = heard and standby is not None and runs(standby) and not plan.node_lost(standby)
    if standby is not None and ready:
        incarnation = standby.incarnation
    recovery = plan.status.recovery
    return plan.write(
        coordinator=CoordinatorStatus(incarnation=incarnation, seen=ready),
        recovery=changed(recovery, fault=0) if recovery else None,
    )


def want_standby(plan: Plan) -> Plan:
    """The plan with a standby wanted, another one where the last was lost, or none."""
    if not plan.training:
        return plan
    coordinator = plan.status.coordinator
    if not plan.spec.resilience.coordinator.standby:
        return plan.write(
            coordinator=changed(coordinator, standby_incarnation=0, standby_seen=False)
        )
    if coordinator.standby_incarnation == 0:
        # Not before the first one is made, so that it never takes the node meant for that.
        return _next_standby(plan) if coordinator.seen else plan
    standby = plan.standby
    if standby is None:
        occupied = coordinator.standby_incarnation <= plan.seen.coordinator_occupied
        return _next_standby(plan) if coordinator.standby_seen or occupied else plan
    if finding(plan, standby) is None:
        plan, in_vain = kept_off_in_vain(plan, standby)
        return _next_standby(plan) if in_vain else plan
    due = standby.created + STANDBY_SECONDS
    return _next_standby(plan) if plan.now >= due else plan.wake_at(due)


def remake_waiting_coordinator(plan: Plan) -> Plan:
    """The plan with a new coordinator pod for one that waits for a node because it keeps off one in
    vain: nothing has run in it yet."""
    pod = plan.coordinator
    if pod is None or not plan.training:
        return plan
    plan, in_vain = kept_off_in_vain(plan, pod)
    if not in_vain:
        return plan
    text = f"pod {pod.name} waits and may use nodes again that it avoids"
    return next_incarnation(plan).tell("Normal", EventReason.COORDINATOR_REPLACED, text)


def children(plan: Plan) -> tuple[Action, ...]:
    """Services, Secret and policy, and the coordinator pods, as far as they are missing."""
    if not plan.live:
        return ()
    wanted = plan.status.coordinator
    ensure = EnsureChildren(coordinator_incarnation=wanted.incarnation)
    if plan.stopping:
        return (ensure,)
    pods: list[CreatePod] = []
    if plan.coordinator is None:
        pods.append(_pod(plan, wanted.incarnation, standby=False))
    if wanted.standby_incarnation and plan.standby is None:
        pods.append(_pod(plan, wanted.standby_incarnation, standby=True))
    return (ensure, *pods)


def _pod(plan: Plan, incarnation: int, *, standby: bool) -> CreatePod:
    return CreatePod(
        role="coordinator",
        slot=0,
        incarnation=incarnation,
        standby=standby,
        zone=plan.status.zone,
        excluded_nodes=excluded_names(plan),
    )


def _next_standby(plan: Plan) -> Plan:
    coordinator = plan.status.coordinator
    fresh = changed(coordinator, standby_incarnation=_free_incarnation(plan), standby_seen=False)
    return plan.write(coordinator=fresh)


def _free_incarnation(plan: Plan) -> int:
    """One above every incarnation that status or a pod knows."""
    known = plan.status.coordinator
    pods: list[PodObservation] = [pod for pod in plan.seen.pods if pod.role == "coordinator"]
    live = (pod.incarnation for pod in pods)
    occupied = plan.seen.coordinator_occupied
    return 1 + max((known.incarnation, known.standby_incarnation, occupied, *live))
