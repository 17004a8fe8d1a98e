"""A fault that comes again before any new step: the node's or the program's?

It is the node's if it stays there while its worker does, and is over without it. It is the
program's if it shows on one node after another. Which of the two needs a pod elsewhere to tell, so
that the ladder climbs as long as nothing speaks for the program.
"""

from enum import Enum, auto
from itertools import pairwise

from rtj_api.ladder import Rung
from rtj_api.status import HistoryEntry, Recovery
from rtj_operator.policy import attribution, nodes, workers
from rtj_operator.policy.faults import Verdict
from rtj_operator.policy.plan import Plan, changed


class Whom(Enum):
    """Whom a fault accuses that came before any new step since the one before."""

    NODE = auto()  # the node of the one before: it came there again
    OTHER = auto()  # a node of which nothing is known yet, or what is not to be compared
    NOBODY = auto()  # no single node: it moved with the program


def whom(plan: Plan, current: Recovery, verdict: Verdict) -> Whom:
    """Whom a verdict accuses that follows the recovery `current`, which is in history by now.

    The rank of a position that fails on two nodes is the program's, and so is what went from one
    node to the next twice. Of one change alone the first may have been an accident.
    """
    if (
        not {current.fault_class, verdict.fault_class} <= attribution.COMPARED
        or current.slot is None
    ):
        return Whom.OTHER
    if verdict.slot is None or current.node is None:
        return Whom.NOBODY
    if not verdict.node:
        return Whom.OTHER
    if verdict.node == current.node.name:
        return Whom.NODE
    if _position(plan, verdict.rank) == _position(plan, current.rank) is not None:
        return Whom.NOBODY
    earlier = plan.status.history[-2:-1] if plan.status.restarts_without_progress > 1 else ()
    changed_before = any(e.suspect not in ("", current.node.name) for e in earlier)
    return Whom.NOBODY if changed_before else Whom.OTHER


def _position(plan: Plan, rank: int | None) -> int | None:
    return None if rank is None else rank // plan.processes_per_node


def blame_nobody(plan: Plan, before: Recovery) -> Plan:
    """The plan with its recovery held against no node, and the one before no longer either."""
    if before.rung is Rung.NODE and before.node is not None:
        plan = nodes.acquit(plan, before.node.name, "the fault came to another node too")
    recovery = plan.status.recovery
    return plan if recovery is None else plan.write(recovery=changed(recovery, node=None))


def exclude_proven(plan: Plan) -> Plan:
    """Exclude a node to which a fault came again, and that training now does well without.

    Its worker was replaced at rung Pod, and a spare may have taken the place: then the new pod may
    wait on that very node to be the next one to fail.
    """
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
    plan = attribution.exclude(plan, entry.suspect, reason)
    if plan.status.nodes.excluded == kept:
        return plan
    for slot, pod in plan.workers().items():
        if pod.node == entry.suspect:
            plan = workers.replace(plan, slot, f"node {pod.node} is excluded")
    return plan


def _over_without_its_node(plan: Plan, before: HistoryEntry, entry: HistoryEntry) -> bool:
    """Whether a fault came to one node twice in a row, and training went on as soon as its worker
    was on another."""
    if entry.rung is not Rung.POD or entry.recovered_seconds is None:
        return False
    if not {before.fault_class, entry.fault_class} <= attribution.COMPARED:
        return False
    again = before.recovered_seconds is None and before.suspect == entry.suspect
    return again and bool(entry.suspect) and _trains_without(plan, entry.suspect)


def _trains_without(plan: Plan, node: str) -> bool:
    view = plan.live_view
    there = {pod.uid for pod in plan.workers().values() if pod.node == node}
    return view is not None and not any(
        worker.position >= 0 and worker.pod_uid in there for worker in view.workers
    )
