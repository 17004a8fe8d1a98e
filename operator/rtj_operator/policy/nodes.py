"""Nodes a job keeps away from: excluded for this job on the beat, tainted for all on evidence.

A beat comes from the tenant's image and may only move this job's pods. Our taint needs the
cluster's own word that the very same node (by UID) is not ready, unknown or gone.
"""

from typing import Final

from rtj_api.names import TAINT_FAULTY
from rtj_api.reasons import EventReason
from rtj_api.status import EXCLUDED_MAX, ExcludedNode, NodeRef
from rtj_operator.policy.decision import ReleaseNode, TaintNode
from rtj_operator.policy.observation import NodeObservation
from rtj_operator.policy.pending import Signal, lasted
from rtj_operator.policy.plan import Plan, changed, ended
from rtj_operator.policy.times import unix

# The breaker: so many bad nodes, and more than half of all, within these seconds, are a fault of
# the network or of the monitor, not of hardware.
BREAKER_SECONDS: Final = 300.0
BREAKER_FLOOR: Final = 2


def ref(plan: Plan, name: str) -> NodeRef | None:
    """Reference to an observed node; None if it is unknown or gone."""
    node = plan.seen.nodes.get(name)
    if node is None:
        return None
    return NodeRef(name=name, uid=node.uid, provider_id=node.provider_id)


def exclude(plan: Plan, name: str, reason: str) -> Plan:
    """The plan with that node excluded for the job; the oldest exclusion goes if all are taken."""
    found = ref(plan, name) or NodeRef(name=name, uid="")
    excluded = plan.status.nodes.excluded
    if any(e.name == name and e.uid == found.uid for e in excluded):
        return plan
    entry = ExcludedNode(
        name=name,
        uid=found.uid,
        provider_id=found.provider_id,
        reason=reason,
        since=plan.now_text,
    )
    kept = (*excluded, entry)[-EXCLUDED_MAX:]
    plan = plan.write(nodes=changed(plan.status.nodes, excluded=kept))
    return plan.tell("Warning", EventReason.NODE_EXCLUDED, f"Node {name} is excluded: {reason}")


def breaker_open(plan: Plan, candidate: str) -> bool:
    """Whether excluding one more node would be acting on a fault that is not the nodes'."""
    bad = {candidate}
    for entry in plan.status.nodes.excluded:
        if plan.now - unix(entry.since) <= BREAKER_SECONDS:
            bad.add(entry.name)
    pods = (pod for pod in plan.seen.pods if pod.role == "worker" and not ended(pod))
    used = {pod.node for pod in pods if pod.node}
    bad |= {name for name in used if name in plan.seen.nodes and _unready(plan, name)}
    cluster_bad, cluster = plan.seen.matching_nodes_bad, plan.seen.matching_nodes
    return _most(len(bad), len(bad | used)) or _most(cluster_bad, cluster)


def _most(bad: int, total: int) -> bool:
    return bad >= BREAKER_FLOOR and 2 * bad > total


def _unready(plan: Plan, name: str) -> bool:
    return plan.seen.nodes[name].ready != "True"


def excluded_names(plan: Plan) -> tuple[str, ...]:
    """Names of nodes that new pods stay off; a machine that came back under an old name is new."""
    return tuple(
        entry.name
        for entry in plan.status.nodes.excluded
        if entry.name not in plan.seen.nodes or plan.seen.nodes[entry.name].uid == entry.uid
    )


def confirm(plan: Plan) -> Plan:
    """Exclusions that the cluster now confirms; with `remediation: enforce` they become taints."""
    for entry in plan.status.nodes.excluded:
        if not entry.confirmed:
            plan = _confirm_one(plan, entry)
    return plan


def _confirm_one(plan: Plan, entry: ExcludedNode) -> Plan:
    node = _same(plan, entry)
    if node is not None and node.ready == "True":
        return plan
    here = node is not None
    enforce = plan.spec.remediation == "enforce"
    after = changed(entry, confirmed=True, tainted=here and enforce)
    plan = _replace_entry(plan, entry, after)
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
    """Nodes whose confirmed fault is over for a stable period lose our taint, then, once it is
    seen gone, their exclusion. A node that only a beat accused stays out for this job."""
    for entry in plan.status.nodes.excluded:
        node = _same(plan, entry)
        if not entry.confirmed or node is None or node.ready != "True":
            continue
        plan, over = _healthy_long(plan, entry)
        if not over:
            continue
        if entry.tainted:
            plan = _replace_entry(plan, entry, changed(entry, tainted=False))
        elif not _our_taint(plan, node):
            plan = _replace_entry(plan, entry, None)
            text = f"Node {entry.name} is ready again and no longer excluded"
            plan = plan.tell("Normal", EventReason.NODE_RELEASED, text)
    return plan


def _healthy_long(plan: Plan, entry: ExcludedNode) -> tuple[Plan, bool]:
    if not plan.live:
        return plan, True
    seconds = plan.spec.resilience.progress.stable_period_seconds
    return lasted(plan, Signal.NODE_HEALTHY, entry.name, seconds)


def _replace_entry(plan: Plan, old: ExcludedNode, new: ExcludedNode | None) -> Plan:
    entries = (new if e is old else e for e in plan.status.nodes.excluded)
    kept = tuple(e for e in entries if e is not None)
    return plan.write(nodes=changed(plan.status.nodes, excluded=kept))


def _same(plan: Plan, entry: ExcludedNode) -> NodeObservation | None:
    """The very node that was excluded; None: gone, or another machine under its name."""
    node = plan.seen.nodes.get(entry.name)
    return node if node is not None and node.uid == entry.uid else None


def _our_taint(plan: Plan, node: NodeObservation) -> bool:
    job = plan.seen.job.uid
    return any(key == TAINT_FAULTY and value == job for key, value, _ in node.taints)


def releases(plan: Plan) -> tuple[ReleaseNode, ...]:
    """Taints of this job on nodes that status no longer wants tainted."""
    return tuple(
        ReleaseNode(name=entry.name, uid=entry.uid)
        for entry in plan.status.nodes.excluded
        if not entry.tainted and (node := _same(plan, entry)) is not None and _our_taint(plan, node)
    )


def taints(plan: Plan) -> tuple[TaintNode, ...]:
    """Taints that are reserved, still justified and not yet on their nodes."""
    return tuple(
        TaintNode(
            name=entry.name, uid=entry.uid, provider_id=entry.provider_id, reason=entry.reason
        )
        for entry in plan.status.nodes.excluded
        if entry.tainted and _taint_missing(plan, entry)
    )


def _taint_missing(plan: Plan, entry: ExcludedNode) -> bool:
    node = _same(plan, entry)
    if node is None or node.ready == "True":
        return False
    return all(key != TAINT_FAULTY for key, _, _ in node.taints)
