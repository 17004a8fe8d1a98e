"""How a worker or coordinator pod was lost, as the cluster tells it: node, kubelet, eviction.

Only the cluster's own objects are read here; what a pod of the tenant says of itself is never
evidence against a node.
"""

from dataclasses import dataclass
from typing import Final

from rtj_api.ladder import FaultClass
from rtj_api.names import CONTAINER_TRAINER
from rtj_operator.policy.observation import ContainerObservation, PodObservation
from rtj_operator.policy.plan import Plan, dead, ended

# Characters kept of what kubelet or agent say; the last ones, where errors stand.
DETAIL_MAX: Final = 1024

# Pod reasons with which a kubelet or the node's shutdown puts a pod out, none of its own fault.
DISPLACING_REASONS: Final = frozenset(
    {"Evicted", "Preempting", "Preempted", "NodeShutdown", "Terminated", "Shutdown", "NodeLost"}
)


# With which a kubelet refuses a pod that the scheduler gave it, beside OutOf...
_ADMISSION_REASONS: Final = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TopologyAffinityError"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How a pod was lost."""

    fault_class: FaultClass
    reason: str
    # The pod has to leave its node.
    off_node: bool = False


def finding(plan: Plan, pod: PodObservation) -> Finding | None:
    """How that pod was lost; None: the cluster sees nothing wrong with it."""
    if plan.node_lost(pod) and not ended(pod):
        return _node_lost(plan, pod)
    if pod.disruption or pod.reason in DISPLACING_REASONS:
        return _displaced(pod)
    if pod.phase == "Failed" and _refused(pod):
        text = f"the kubelet of node {pod.node} refused pod {pod.name} ({pod.reason})"
        return Finding(
            fault_class=FaultClass.ADMISSION_FAILED, reason=_with_detail(text, pod.message)
        )
    if dead(pod):
        return _died(pod)
    if pod.deleting:
        return Finding(
            fault_class=FaultClass.DISPLACED,
            reason=f"pod {pod.name} on node {pod.node or 'none'} is being deleted",
        )
    return None


def gone(name: str) -> Finding:
    """A pod that is no more: somebody deleted it."""
    return Finding(fault_class=FaultClass.DISPLACED, reason=f"pod of {name} was deleted")


def unreachable(pod: PodObservation) -> Finding:
    """A pod that is silent although its kubelet reports nothing: a dead node looks so."""
    return Finding(
        fault_class=FaultClass.NODE_LOST,
        off_node=True,
        reason=f"pod {pod.name} is out of reach and node {pod.node} does not report it ended",
    )


def _node_lost(plan: Plan, pod: PodObservation) -> Finding:
    node = plan.node_of(pod)
    state = "is gone" if node is None else f"is not ready (Ready={node.ready} {node.ready_reason})"
    return Finding(
        fault_class=FaultClass.NODE_LOST,
        off_node=True,
        reason=f"node {pod.node} of pod {pod.name} {state.replace(' )', ')')}",
    )


def _refused(pod: PodObservation) -> bool:
    started = any(c.state != "waiting" for c in pod.containers)
    refused = pod.reason in _ADMISSION_REASONS or pod.reason.startswith("OutOf")
    return refused and not started


def _displaced(pod: PodObservation) -> Finding:
    why = pod.disruption or pod.reason
    text = f"pod {pod.name} was put off node {pod.node or 'none'} ({why})"
    return Finding(
        fault_class=FaultClass.DISPLACED,
        off_node=True,
        reason=_with_detail(text, pod.message),
    )


def _died(pod: PodObservation) -> Finding:
    failed = _ended_container(pod)
    oom = failed is not None and failed.reason == "OOMKilled"
    text = f"pod {pod.name} on node {pod.node or 'none'} ended ({pod.reason or pod.phase})"
    if failed is not None:
        code = f"exit code {failed.exit_code}"
        why = f"{failed.reason}, {code}" if failed.reason else code
        text = f"container {failed.name} in pod {pod.name} on node {pod.node} ended ({why})"
    detail = pod.termination.message if pod.termination else (failed.message if failed else "")
    return Finding(
        fault_class=FaultClass.OUT_OF_MEMORY if oom else FaultClass.POD_DIED,
        reason=_with_detail(text, detail or pod.message),
    )


def _with_detail(text: str, detail: str) -> str:
    last = detail.strip()[-DETAIL_MAX:]
    return f"{text}: {last}" if last else text


def _ended_container(pod: PodObservation) -> ContainerObservation | None:
    over = [c for c in pod.containers if c.state == "terminated"]
    failed = [c for c in over if c.exit_code != 0]
    trainer = [c for c in over if c.name == CONTAINER_TRAINER]
    return next(iter(trainer or failed or over), None)
