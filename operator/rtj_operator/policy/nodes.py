"""Nodes a job keeps away from: excluded for this job on the beat, tainted for all on evidence.

A beat comes from the tenant's image and may only move this job's pods. Our taint needs the
cluster's own word that the very same node (by UID) is not ready, unknown or gone.
"""

from typing import Any, cast

from rtj_api.names import TAINT_FAULTY
from rtj_api.reasons import EventReason
from rtj_api.status import EXCLUDED_MAX, ExcludedNode, NodeRef
from rtj_operator.policy.decision import ReleaseNode, TaintNode
from rtj_operator.policy.observation import NodeObservation, PodObservation
from rtj_operator.policy.pending import UNREADY_SECONDS, Signal, lasted, settled
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.render.scheduling import NODE_LOSS_TAINTS


def ref(plan: Plan, name: str) -> NodeRef | None:
    """Reference to an observed node; None if it is unknown or gone."""
    node = plan.seen.nodes.get(name)
    if node is None:
        return None
    return NodeRef(name=name, uid=node.uid, provider_id=node.provider_id)


def exclude(plan: Plan, name: str, reason: str) -> Plan:
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
    )
    if len(excluded) >= EXCLUDED_MAX:
        spare = next((e for e in excluded if not _holds_taint(plan, e)), None)
        if spare is None:
            text = f"Node {name} is not excluded: {EXCLUDED_MAX} tainted ones are, and none may go"
            return plan.tell("Warning", EventReason.FAULT_DETECTED, text)
        excluded = tuple(e for e in excluded if e is not spare)
    plan = plan.write(nodes=changed(plan.status.nodes, excluded=(*excluded, entry)))
    return plan.tell("Warning", EventReason.NODE_EXCLUDED, f"Node {name} is excluded: {reason}")


def acquit(plan: Plan, name: str, reason: str) -> Plan:
    """The plan without that node's exclusion, if nobody but the job's own beats accused it."""
    entry = next((e for e in plan.status.nodes.excluded if e.name == name), None)
    if entry is None or entry.confirmed:
        return plan
    plan = _replace_entry(plan, entry, None)
    text = f"Node {name} is no longer excluded: {reason}"
    return plan.tell("Normal", EventReason.NODE_RELEASED, text)


def elsewhere(plan: Plan) -> bool:
    """Whether a worker that leaves its node has another one to go to, as far as is known: a spare's
    or one that this job does not use."""
    view = plan.live_view
    if view is not None and any(w.position < 0 and plan.hears(w) for w in view.workers):
        return True
    used = {pod.node for pod in plan.workers().values()}
    used |= {entry.name for entry in plan.status.nodes.excluded}
    ready = [n for n in used if n in plan.seen.nodes and plan.seen.nodes[n].ready == "True"]
    return plan.seen.matching_nodes - plan.seen.matching_nodes_bad > len(ready)


def _holds_taint(plan: Plan, entry: ExcludedNode) -> bool:
    node = _same(plan, entry)
    return node is not None and (entry.tainted or _our_taint(plan, node))


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
        if (node := _same(plan, entry)) is not None
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
    due = pod.created + UNREADY_SECONDS
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
            plan = settled(_replace_entry(plan, entry, None), entry.name)
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
