"""The circuit breaker: so many nodes look bad at once that something else is to blame, the network
or who watches it.

An operator that is cut off from the nodes, or a coordinator that is cut off from its workers, must
not kill what trains there, and must not take the nodes from other jobs.
"""

from typing import Final

from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan, ended
from rtj_operator.policy.times import unix

# So many bad nodes, and half or more of the job's, within these seconds open the breaker.
BREAKER_SECONDS: Final = 300.0
BREAKER_FLOOR: Final = 2

TEXT: Final = (
    "Most nodes look bad at once, so no node is given up and no pod replaced that may still live: "
    "look at the network between control plane, operator and nodes."
)


def breaker_open(plan: Plan) -> bool:
    """Whether so many of the job's nodes look bad that giving one up would be acting on a fault
    that is not the nodes'."""
    return cluster_looks_bad(plan) or nobody_heard(plan) or own_nodes_look_bad(plan)


def own_nodes_look_bad(plan: Plan) -> bool:
    """Whether half or more of the nodes that the job needs look bad, those excluded lately too."""
    bad = {
        entry.name
        for entry in plan.status.nodes.excluded
        if plan.now - unix(entry.since) <= BREAKER_SECONDS
    }
    if not bad and not _anything_looks_bad(plan):
        return False
    # Those that were given up count too while they exist, so that acting on some of a wave does not
    # make the others look like few.
    for pod in plan.seen.pods:
        if pod.role != "worker" or not pod.node or ended(pod):
            continue
        if _looks_bad(plan, pod):
            bad.add(pod.node)
    return _most(len(bad), len(plan.slots))


def cluster_looks_bad(plan: Plan) -> bool:
    """Whether most nodes of the job's kind in the whole cluster are not ready."""
    return _most(plan.seen.matching_nodes_bad, plan.seen.matching_nodes)


def nobody_heard(plan: Plan) -> bool:
    """Whether the coordinator hears none of its workers: it may be the one that is cut off."""
    view = plan.live_view
    if view is None or len(view.workers) < BREAKER_FLOOR:
        return False
    return not any(plan.hears(worker) for worker in view.workers)


def capacity_elsewhere(plan: Plan) -> bool:
    """Whether as many ready nodes of the job's kind are free as it has pods on bad ones."""
    pods = [pod for pod in plan.worker_pods().values() if pod.node]
    lost = sum(plan.node_lost(pod) for pod in pods)
    ready = len({pod.node for pod in pods if not plan.node_lost(pod)})
    return plan.seen.matching_nodes - plan.seen.matching_nodes_bad - ready >= lost


def hold_seconds(plan: Plan) -> float:
    """How long pods that may live are kept while the breaker is open. If most nodes of their kind
    in the cluster look bad there is nowhere to go: as long as a start may take."""
    if cluster_looks_bad(plan):
        start = plan.spec.resilience.progress.start_deadline_seconds
        return max(BREAKER_SECONDS, start)
    return BREAKER_SECONDS


def _anything_looks_bad(plan: Plan) -> bool:
    if any(node.ready != "True" for node in plan.seen.nodes.values()):
        return True
    view = plan.live_view
    return view is not None and not all(map(plan.hears, view.workers))


def _looks_bad(plan: Plan, pod: PodObservation) -> bool:
    node = plan.node_of(pod)
    if node is not None and node.ready != "True":
        return True
    told = plan.told_of(pod) if plan.live_view is not None else None
    # Somebody's deletion silences a pod too; ours, of one that was given up, is no such excuse.
    excused = pod.deleting and plan.pod_of_slot(pod.slot) is pod
    return told is not None and not excused and not plan.hears(told)


def _most(bad: int, total: int) -> bool:
    return bad >= BREAKER_FLOOR and 2 * bad >= total
