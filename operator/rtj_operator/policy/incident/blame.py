"""Whose fault it was. No single suspect: no blame.

A fault is a strike against its node only when training had moved on since the fault before: for one
that returns at the same step see `repeats`.
"""

from typing import Final

from rtj_api.ladder import FaultClass
from rtj_api.reasons import EventReason
from rtj_api.status import STRIKES_MAX, Recovery
from rtj_operator.policy.incident.budgets import within
from rtj_operator.policy.incident.transitions import TRANSITIONS, Blame
from rtj_operator.policy.nodes import exclusion
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals.fault import Batch, Fault

# Classes that a program or a node may be behind: compared when a fault returns.
COMPARED: Final = frozenset(
    {
        row.fault_class
        for row in TRANSITIONS
        if row.fault_class is not None and row.blame is Blame.STRIKE
    }
    | {FaultClass.START_FAILED}
) - {FaultClass.ADMISSION_FAILED}
# A kubelet that restarts refuses a pod once; one that does so again has lost a device.
ADMISSION_STRIKES: Final = 2


def strike(plan: Plan, fault: Fault, blame: Blame) -> tuple[Plan, bool]:
    """Record a fault against its node, by UID; whether the node has as many as exclude it.

    Nodes whose faults have all left the window are forgotten, and the oldest beyond the bound.
    """
    node = plan.node_of(fault.pod) if fault.pod is not None else None
    refused = fault.fault_class is FaultClass.ADMISSION_FAILED
    if blame is not Blame.STRIKE or node is None or (fault.step < 0 and not refused):
        return plan, False
    settings = plan.spec.resilience.node
    # Counted apart: what a kubelet refuses says nothing of what runs there.
    key = f"{node.uid}/refusals" if refused else node.uid
    enough = ADMISSION_STRIKES if refused else settings.strikes
    strikes = plan.status.nodes.strikes
    before = within(plan, strikes.get(key, ()), settings.window_seconds)
    times = (*before, plan.now_text)[-enough:]
    struck_out = len(times) >= enough
    rest = {
        other: kept
        for other, kept in strikes.items()
        if other != key and within(plan, kept, settings.window_seconds)
    }
    after = rest if struck_out else dict([*rest.items(), (key, times)][-STRIKES_MAX:])
    return plan.write(nodes=changed(plan.status.nodes, strikes=after)), struck_out


def withdraw(plan: Plan, recovery: Recovery, fault: Fault) -> Plan:
    """The plan without blame, when a second worker fails by itself in the break of the first."""
    if fault.slot is None or fault.slot == recovery.slot or recovery.node is None:
        return plan
    if not {recovery.fault_class, fault.fault_class} <= COMPARED:
        return plan
    uid = recovery.node.uid
    strikes = plan.status.nodes.strikes
    rest = {node: times for node, times in strikes.items() if node != uid}
    fewer = tuple(t for t in strikes.get(uid, ()) if t < recovery.detected_time)
    after = changed(plan.status.nodes, strikes={**rest, uid: fewer} if fewer else rest)
    return plan.write(nodes=after, recovery=changed(recovery, node=None))


def exclude(plan: Plan, fault: Fault, batch: Batch) -> Plan:
    """The plan with the fault's node given up, unless so many look bad that it is not the nodes'
    fault."""
    if not fault.node:
        return plan
    if batch.breaker_open:
        text = f"Node {fault.node} is not excluded: too many nodes look bad at once"
        return plan.tell("Warning", EventReason.FAULT_DETECTED, text)
    silent = fault.fault_class is FaultClass.NODE_LOST
    return exclusion.exclude(plan, fault.node, fault.reason, "Silence" if silent else "Faults")


def acquit_recent(plan: Plan, batch: Batch) -> Plan:
    """The plan without exclusions that a wave of silence brought before the breaker opened."""
    if not batch.breaker_open:
        return plan
    for entry in plan.status.nodes.excluded:
        if entry.suspicion == "Silence" and exclusion.is_recent(plan, entry):
            plan = exclusion.acquit(plan, entry.uid, "too many nodes look bad at once")
    return plan
