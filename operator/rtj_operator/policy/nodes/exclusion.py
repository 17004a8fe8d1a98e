"""Nodes that a job keeps off: excluded for this job alone, by its own beats or the cluster's word.

A beat comes from the tenant's image and may only move this job's pods; for the taint that others
see too, read `taints`.
"""

from typing import Any, Final, Literal, cast

from rtj_api.names import TAINT_FAULTY
from rtj_api.reasons import EventReason
from rtj_api.status import EXCLUDED_MAX, ExcludedNode, NodeRef
from rtj_operator.policy.observation import NodeObservation, PodObservation
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.breaker import BREAKER_SECONDS
from rtj_operator.policy.times import unix

# Taints that the node lifecycle controller puts on nodes that are lost.
NODE_LOSS_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# A pod that waits for a node is given this long before it is made anew.
PENDING_SECONDS: Final = 10.0


def ref(plan: Plan, name: str) -> NodeRef | None:
    """Reference to an observed node; None if it is unknown or gone."""
    node = plan.seen.nodes.get(name)
    if node is None:
        return None
    return NodeRef(name=name, uid=node.uid, provider_id=node.provider_id)


def exclude(plan: Plan, name: str, reason: str, suspicion: Literal["Silence", "Faults"]) -> Plan:
    """The plan with that node excluded for the job.

    If all places are taken the oldest one goes that holds no taint of ours: whose entry is gone,
    nobody would take the taint off.
    """
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
        suspicion=suspicion,
    )
    if len(excluded) >= EXCLUDED_MAX:
        spare = next((e for e in excluded if not _holds_taint(plan, e)), None)
        if spare is None:
            text = f"Node {name} is not excluded: {EXCLUDED_MAX} tainted ones are, and none may go"
            return plan.tell("Warning", EventReason.FAULT_DETECTED, text)
        excluded = tuple(e for e in excluded if e is not spare)
    plan = plan.write(nodes=changed(plan.status.nodes, excluded=(*excluded, entry)))
    return plan.tell("Warning", EventReason.NODE_EXCLUDED, f"Node {name} is excluded: {reason}")


def acquit(plan: Plan, uid: str, reason: str) -> Plan:
    """The plan without that node's exclusion, if nobody but the job's own beats accused it."""
    entry = next((e for e in plan.status.nodes.excluded if e.uid == uid), None)
    if entry is None or entry.confirmed:
        return plan
    plan = replace_entry(plan, entry, None)
    text = f"Node {entry.name} is no longer excluded: {reason}"
    return plan.tell("Normal", EventReason.NODE_RELEASED, text)


def is_recent(plan: Plan, entry: ExcludedNode) -> bool:
    """Whether a node was excluded so lately that the breaker counts it."""
    return plan.now - unix(entry.since) <= BREAKER_SECONDS


def _holds_taint(plan: Plan, entry: ExcludedNode) -> bool:
    node = same_node(plan, entry)
    return node is not None and (entry.tainted or has_our_taint(plan, node))


def excluded_names(plan: Plan) -> tuple[str, ...]:
    """Names of nodes that new pods must be kept off, in so many words.

    As few as possible: Karpenter makes no node at all for a pod that names any. A machine that came
    back under an old name is new, one that is gone takes nobody, and a taint that the pods do not
    tolerate keeps them off by itself.
    """
    given = _tolerations(plan)
    return tuple(
        entry.name
        for entry in plan.status.nodes.excluded
        if (node := same_node(plan, entry)) is not None
        and not any(_keeps_off(taint, given) for taint in node.taints)
    )


def kept_off_in_vain(plan: Plan, pod: PodObservation) -> tuple[Plan, bool]:
    """Whether no node takes a pod that keeps off one which it need not keep off any more.

    What a pod was made with cannot be changed. One is given a while each time: the taints of many
    lost nodes come one after another.
    """
    waits = pod.phase == "Pending" and not pod.node and not pod.deleting
    if not waits or not pod.unschedulable or {*pod.excluded_nodes} <= {*excluded_names(plan)}:
        return plan, False
    due = pod.created + PENDING_SECONDS
    return (plan, True) if plan.now >= due else (plan.wake_at(due), False)


def _tolerations(plan: Plan) -> list[dict[str, Any]]:
    pod = cast("dict[str, Any]", plan.spec.template.get("spec") or {})
    return cast("list[dict[str, Any]]", pod.get("tolerations") or [])


def _keeps_off(taint: tuple[str, str, str], given: list[dict[str, Any]]) -> bool:
    """Whether a taint that bad nodes have keeps the job's pods off; ours tolerate none of them."""
    key, value, effect = taint
    if effect != "NoSchedule" or key not in (TAINT_FAULTY, *NODE_LOSS_TAINTS):
        return False
    return not any(
        toleration.get("key") in (None, "", key)
        and toleration.get("effect") in (None, "", effect)
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == value)
        for toleration in given
    )


def replace_entry(plan: Plan, old: ExcludedNode, new: ExcludedNode | None) -> Plan:
    entries = (new if e is old else e for e in plan.status.nodes.excluded)
    kept = tuple(e for e in entries if e is not None)
    return plan.write(nodes=changed(plan.status.nodes, excluded=kept))


def same_node(plan: Plan, entry: ExcludedNode) -> NodeObservation | None:
    """The very node that was excluded; None: gone, or another machine under its name."""
    node = plan.seen.nodes.get(entry.name)
    return node if node is not None and node.uid == entry.uid else None


def has_our_taint(plan: Plan, node: NodeObservation) -> bool:
    job = plan.seen.job.uid
    return any(key == TAINT_FAULTY and value == job for key, value, _ in node.taints)
