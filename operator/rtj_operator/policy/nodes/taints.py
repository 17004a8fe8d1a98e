"""When an excluded node is tainted for everybody, and when a node is used again.

Our taint needs the cluster's own word that the very same node (by UID) is not ready, unknown or
gone, and that it is not one of many that look so at once. Suspicion without such a word passes with
time, and a suspect is better than none: where nothing else is free it is used again.
"""

from typing import Final

from rtj_api.names import TAINT_FAULTY
from rtj_api.reasons import EventReason
from rtj_api.status import ExcludedNode
from rtj_operator.policy import clocks
from rtj_operator.policy.clocks import Clock
from rtj_operator.policy.decision import ReleaseNode, TaintNode
from rtj_operator.policy.nodes.exclusion import (
    PENDING_SECONDS,
    has_our_taint,
    replace_entry,
    same_node,
)
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.breaker import cluster_looks_bad
from rtj_operator.policy.signals.fault import Batch
from rtj_operator.policy.times import unix

# A node that dies is called not ready by then; a suspect that is not is given to a pod that waits.
SUSPECT_SECONDS: Final = 60.0


def confirm(plan: Plan, batch: Batch) -> Plan:
    """Exclusions that the cluster now confirms; with `remediation: enforce` they become taints."""
    if batch.breaker_open:
        return plan
    for entry in plan.status.nodes.excluded:
        if not entry.confirmed:
            plan = _confirm_one(plan, entry)
    return plan


def _confirm_one(plan: Plan, entry: ExcludedNode) -> Plan:
    node = same_node(plan, entry)
    if node is not None and node.ready == "True":
        return plan
    here = node is not None
    enforce = plan.spec.remediation == "enforce"
    after = changed(entry, confirmed=True, tainted=here and enforce)
    plan = replace_entry(plan, entry, after)
    if not here:
        return plan
    if enforce:
        text = f"Node {entry.name} is not ready either and is tainted {TAINT_FAULTY}"
    else:
        text = (
            f"Node {entry.name} is not ready either; with spec.remediation: enforce "
            f"it would be tainted {TAINT_FAULTY}"
        )
    return plan.tell("Warning", EventReason.NODE_TAINTED, text)


def release(plan: Plan) -> Plan:
    """Nodes that the job may use again: those whose confirmed fault is over for a stable period
    lose our taint, then, once it is seen gone, their exclusion; suspects are released in time."""
    ready = [
        entry
        for entry in plan.status.nodes.excluded
        if (node := same_node(plan, entry)) is not None and node.ready == "True"
    ]
    healthy = {(Clock.NODE_HEALTHY, entry.name) for entry in ready if entry.confirmed}
    plan = clocks.keep_only(plan, {Clock.NODE_HEALTHY}, healthy if plan.live else ())
    for entry in ready:
        plan = _release_confirmed(plan, entry) if entry.confirmed else _let_pass(plan, entry)
    return _use_oldest_suspect(plan)


def _release_confirmed(plan: Plan, entry: ExcludedNode) -> Plan:
    if plan.live:
        seconds = plan.spec.resilience.progress.stable_period_seconds
        plan, over = clocks.lasted(plan, Clock.NODE_HEALTHY, entry.name, seconds)
        if not over:
            return plan
    if entry.tainted:
        return replace_entry(plan, entry, changed(entry, tainted=False))
    node = same_node(plan, entry)
    if node is not None and has_our_taint(plan, node):
        return plan
    plan = clocks.stop(plan, Clock.NODE_HEALTHY, entry.name)
    return _use_again(plan, entry, "is ready again and no longer excluded")


def _let_pass(plan: Plan, entry: ExcludedNode) -> Plan:
    """Suspicion of silence passes when training has been stable without it, that of faults with
    the window in which they count."""
    resilience = plan.spec.resilience
    seconds = resilience.progress.stable_period_seconds
    if entry.suspicion == "Faults":
        seconds = resilience.node.window_seconds
    over = unix(entry.since) + seconds
    if plan.now < over:
        return plan.wake_at(over) if plan.live else plan
    return _use_again(plan, entry, "is no longer suspected")


def _use_oldest_suspect(plan: Plan) -> Plan:
    """Give a pod that waits for a node the one that has been suspected for longest."""
    waiting = [
        pod
        for pod in plan.worker_pods().values()
        if pod.phase == "Pending" and pod.unschedulable and not pod.node and not pod.deleting
    ]
    if not waiting or not plan.training:
        return plan
    for entry in plan.status.nodes.excluded:
        node = same_node(plan, entry)
        if entry.confirmed or node is None or node.ready != "True":
            continue
        keeping_off = [pod.created for pod in waiting if entry.name in pod.excluded_nodes]
        if not keeping_off:
            continue
        due = max(min(keeping_off) + PENDING_SECONDS, unix(entry.since) + SUSPECT_SECONDS)
        if plan.now < due:
            plan = plan.wake_at(due)
            continue
        return _use_again(plan, entry, "is used again although suspected: no other is free")
    return plan


def _use_again(plan: Plan, entry: ExcludedNode, why: str) -> Plan:
    plan = replace_entry(plan, entry, None)
    return plan.tell("Normal", EventReason.NODE_RELEASED, f"Node {entry.name} {why}")


def releases(plan: Plan) -> tuple[ReleaseNode, ...]:
    """Taints of this job on nodes that status no longer wants tainted."""
    return tuple(
        ReleaseNode(name=entry.name, uid=entry.uid)
        for entry in plan.status.nodes.excluded
        if not entry.tainted
        and (node := same_node(plan, entry)) is not None
        and has_our_taint(plan, node)
    )


def taints(plan: Plan) -> tuple[TaintNode, ...]:
    """Taints that are reserved, still justified and not yet on their nodes."""
    if cluster_looks_bad(plan):
        return ()
    return tuple(
        TaintNode(
            name=entry.name, uid=entry.uid, provider_id=entry.provider_id, reason=entry.reason
        )
        for entry in plan.status.nodes.excluded
        if entry.tainted and _taint_missing(plan, entry)
    )


def _taint_missing(plan: Plan, entry: ExcludedNode) -> bool:
    node = same_node(plan, entry)
    if node is None or node.ready == "True":
        return False
    return all(key != TAINT_FAULTY for key, _, _ in node.taints)
