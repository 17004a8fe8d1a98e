"""Whose fault it was. No single suspect: no blame.

A soft fault (a process that died or hung) is a strike against its node only when training had
moved on since the fault before: for one that returns at the same step see `repeats`.
"""

from typing import Final

from rtj_api.ladder import FaultClass
from rtj_api.reasons import EventReason
from rtj_api.status import Recovery
from rtj_operator.policy import nodes, outage
from rtj_operator.policy.budgets import within
from rtj_operator.policy.faults import Verdict
from rtj_operator.policy.plan import Plan, changed

SOFT: Final = frozenset(
    {FaultClass.APPLICATION, FaultClass.PROCESS_DIED, FaultClass.HANG, FaultClass.OUT_OF_MEMORY}
)
# Classes that a program or a node may be behind: compared when a fault returns.
COMPARED: Final = SOFT | {FaultClass.POD_DIED}
# Classes that never count against a budget, the progress limit or a node.
BLAMELESS: Final = frozenset({FaultClass.DISPLACED})


def summary(verdict: Verdict) -> str:
    """The LAST FAULT column: class, node or slot, rank."""
    where = verdict.node or (f"slot {verdict.slot}" if verdict.slot is not None else "")
    if verdict.rank is not None:
        where = f"{where}, rank {verdict.rank}" if where else f"rank {verdict.rank}"
    name = verdict.fault_class.value
    return f"{name} ({where})"[:128] if where else name


def strike(plan: Plan, verdict: Verdict) -> tuple[Plan, bool]:
    """Record a soft fault against its node; whether the node has as many as exclude it.

    Nodes whose faults have all left the window are forgotten.
    """
    if verdict.fault_class not in SOFT or not verdict.node or verdict.step < 0:
        return plan, False
    settings = plan.spec.resilience.node
    strikes = plan.status.nodes.strikes
    before = within(plan, strikes.get(verdict.node, ()), settings.window_seconds)
    times = (*before, plan.now_text)[-settings.strikes :]
    out = len(times) >= settings.strikes
    rest = {
        node: times
        for node, times in strikes.items()
        if node != verdict.node and within(plan, times, settings.window_seconds)
    }
    after = rest if out else {**rest, verdict.node: times}
    return plan.write(nodes=changed(plan.status.nodes, strikes=after)), out


def withdraw(plan: Plan, recovery: Recovery, verdict: Verdict) -> Plan:
    """The plan without blame, when a second worker fails by itself in the break of the first."""
    if verdict.slot is None or verdict.slot == recovery.slot or recovery.node is None:
        return plan
    if not {recovery.fault_class, verdict.fault_class} <= COMPARED:
        return plan
    name = recovery.node.name
    strikes = plan.status.nodes.strikes
    rest = {node: t for node, t in strikes.items() if node != name}
    fewer = tuple(t for t in strikes.get(name, ()) if t < recovery.detected_time)
    after = changed(plan.status.nodes, strikes={**rest, name: fewer} if fewer else rest)
    return plan.write(nodes=after, recovery=changed(recovery, node=None))


def exclude(plan: Plan, node: str, reason: str) -> Plan:
    """The plan with a node given up, unless so many look bad that it is not the nodes' fault."""
    if not node:
        return plan
    if outage.breaker_open(plan, node):
        text = f"Node {node} is not excluded: too many nodes look bad at once"
        return plan.tell("Warning", EventReason.FAULT_DETECTED, text)
    return nodes.exclude(plan, node, reason)
