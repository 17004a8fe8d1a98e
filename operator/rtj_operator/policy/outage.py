"""So many that look bad at once that something else is to blame: the network, or who watches.

An operator that is cut off from the nodes, or a coordinator that is cut off from its workers, must
not kill what trains there.
"""

from typing import Final

from rtj_api.reasons import EventReason
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.pending import UNREADY_SECONDS, Signal, clock, lasted, settled
from rtj_operator.policy.plan import Plan, ended
from rtj_operator.policy.times import unix

# The breaker: so many bad nodes, and more than half of all, within these seconds, are a fault of
# the network or of the monitor, not of hardware.
BREAKER_SECONDS: Final = 300.0
BREAKER_FLOOR: Final = 2
# Seconds a coordinator that hears nobody is given: by then Kubernetes calls dead nodes not ready.
UNHEARD_SECONDS: Final = 60.0

TEXT: Final = (
    "Most nodes look not ready at once and the coordinator is not reached, so nothing is replaced: "
    "look at the network between control plane, operator and nodes."
)


def breaker_open(plan: Plan, candidate: str) -> bool:
    """Whether excluding one more node would be acting on a fault that is not the nodes'."""
    bad = {candidate}
    for entry in plan.status.nodes.excluded:
        if plan.now - unix(entry.since) <= BREAKER_SECONDS:
            bad.add(entry.name)
    pods = (pod for pod in plan.seen.pods if pod.role == "worker" and not ended(pod))
    used = {pod.node for pod in pods if pod.node}
    bad |= {name for name in used if name in plan.seen.nodes and _unready(plan, name)}
    return _most(len(bad), len(bad | used)) or _cluster_looks_bad(plan) or unheard(plan)


def _cluster_looks_bad(plan: Plan) -> bool:
    return _most(plan.seen.matching_nodes_bad, plan.seen.matching_nodes)


def _most(bad: int, total: int) -> bool:
    return bad >= BREAKER_FLOOR and 2 * bad > total


def _unready(plan: Plan, name: str) -> bool:
    return plan.seen.nodes[name].ready != "True"


def unheard(plan: Plan) -> bool:
    """Whether the coordinator hears none of its workers: it may be the one that is cut off."""
    view = plan.live_view
    if view is None or len(view.workers) < BREAKER_FLOOR:
        return False
    return not any(plan.hears(worker) for worker in view.workers)


def held(plan: Plan, pod: PodObservation) -> tuple[Plan, bool]:
    """Whether to go on waiting for a pod whose node is not ready and of which no view tells.

    If most nodes of its kind in the cluster look bad, there is nowhere to go: as long as a start
    may take. If only this job's do: as long as the breaker looks back.
    """
    blind = plan.live_view is None and plan.node_of(pod) is not None
    if not blind or not breaker_open(plan, pod.node):
        return plan, False
    if clock(plan, Signal.OUTAGE, "nodes") is None:
        plan = plan.tell("Warning", EventReason.FAULT_DETECTED, TEXT)
    seconds = BREAKER_SECONDS
    if _cluster_looks_bad(plan):
        seconds = max(seconds, plan.spec.resilience.progress.start_deadline_seconds)
    plan, over = lasted(plan, Signal.OUTAGE, "nodes", seconds)
    if over:
        return settled(plan, "nodes"), False
    # Nodes that are not this job's wake nobody when they come back.
    return plan.wake_at(plan.now + UNREADY_SECONDS), True
