"""A fault that comes again before any new step: the node's or the program's?

It is the node's if it stays there while its worker does, and is over without it. It is the
program's if it shows on one node after another. Which of the two needs a pod elsewhere to tell, so
that the ladder climbs as long as nothing speaks for the program.
"""

from enum import Enum, auto
from itertools import pairwise

from rtj_api.ladder import Rung
from rtj_api.status import HistoryEntry, Recovery
from rtj_operator.policy.incident.blame import COMPARED
from rtj_operator.policy.nodes import exclusion
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.fault import Batch, Fault
from rtj_operator.policy.wanted import worker_pods


class Whom(Enum):
    """Whom a fault accuses that came before any new step since the one before."""

    NODE = auto()  # the node of the one before: it came there again
    OTHER = auto()  # a node of which nothing is known yet, or what is not to be compared
    NOBODY = auto()  # no single node: it moved with the program


def whom(plan: Plan, current: Recovery, fault: Fault) -> Whom:
    """Whom a fault accuses that follows the recovery `current`, which is in history by now.

    The rank of a position that fails on two nodes is the program's, and so is what went from one
    node to the next twice. Of one change alone the first may have been an accident.
    """
    if not {current.fault_class, fault.fault_class} <= COMPARED or current.slot is None:
        return Whom.OTHER
    if fault.slot is None or current.node is None:
        return Whom.NOBODY
    node = plan.node_of(fault.pod) if fault.pod is not None else None
    if node is None:
        return Whom.OTHER
    if node.uid == current.node.uid:
        return Whom.NODE
    if _position(plan, fault.rank) == _position(plan, current.rank) is not None:
        return Whom.NOBODY
    earlier = plan.status.history[-2:-1] if plan.status.restarts_without_progress > 1 else ()
    changed_before = any(e.suspect_uid not in ("", current.node.uid) for e in earlier)
    return Whom.NOBODY if changed_before else Whom.OTHER


def _position(plan: Plan, rank: int | None) -> int | None:
    return None if rank is None else rank // plan.processes_per_node


def blame_nobody(plan: Plan, before: Recovery) -> Plan:
    """The plan with its recovery held against no node, and the one before no longer either."""
    if before.rung is Rung.NODE and before.node is not None:
        plan = exclusion.acquit(plan, before.node.uid, "the fault came to another node too")
    recovery = plan.status.recovery
    return plan if recovery is None else plan.write(recovery=changed(recovery, node=None))


def has_other_node(plan: Plan) -> bool:
    """Whether a worker that leaves its node has another one to go to, as far as is known: a spare's
    or one that this job does not use."""
    view = plan.live_view
    if view is not None and any(w.position < 0 and plan.hears(w) for w in view.workers):
        return True
    used = {pod.node for pod in plan.worker_pods().values()}
    used |= {entry.name for entry in plan.status.nodes.excluded}
    ready = [n for n in used if n in plan.seen.nodes and plan.seen.nodes[n].ready == "True"]
    return plan.seen.matching_nodes - plan.seen.matching_nodes_bad > len(ready)


def exclude_proven(plan: Plan, batch: Batch) -> Plan:
    """Exclude a node to which a fault came again, and that training now does well without.

    Its worker was replaced at rung Pod, and a spare may have taken the place: then the new pod may
    wait on that very node to be the next one to fail.
    """
    if batch.breaker_open or plan.status.history is plan.seen.job.status.history:
        return plan
    known = {entry.number for entry in plan.seen.job.status.history}
    for before, entry in pairwise(plan.status.history):
        if entry.number in known or not plan.training:
            continue
        if _over_without_its_node(plan, before, entry):
            plan = _exclude_proven(plan, entry)
    return plan


def _exclude_proven(plan: Plan, entry: HistoryEntry) -> Plan:
    reason = f"a fault came there again and was over without it: {entry.reason}"
    kept = plan.status.nodes.excluded
    plan = exclusion.exclude(plan, entry.suspect, reason, "Faults")
    if plan.status.nodes.excluded == kept:
        return plan
    for slot, pod in plan.worker_pods().items():
        if pod.node == entry.suspect:
            plan = worker_pods.replace_pod(plan, slot, f"node {pod.node} is excluded")
    return plan


def _over_without_its_node(plan: Plan, before: HistoryEntry, entry: HistoryEntry) -> bool:
    """Whether a fault came to one node twice in a row, and training went on as soon as its worker
    was on another."""
    if entry.rung is not Rung.POD or entry.recovered_seconds is None:
        return False
    if not {before.fault_class, entry.fault_class} <= COMPARED:
        return False
    again = before.recovered_seconds is None and before.suspect_uid == entry.suspect_uid
    return again and bool(entry.suspect) and _trains_without(plan, entry.suspect)


def _trains_without(plan: Plan, node: str) -> bool:
    view = plan.live_view
    there = {pod.uid for pod in plan.worker_pods().values() if pod.node == node}
    return view is not None and not any(
        worker.position >= 0 and worker.pod_uid in there for worker in view.workers
    )
