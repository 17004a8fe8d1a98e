"""Which worker pods should exist: one incarnation a slot, the next reserved before any is touched.

A slot's incarnation in status is the reservation: pods of an older one go, the one it names is
made. Nothing waits for a terminating predecessor, which on a dead node would be for ever.
"""

from collections.abc import Iterable

from rtj_api.reasons import EventReason
from rtj_operator.policy.decision import CreatePod, DeletePod
from rtj_operator.policy.nodes.exclusion import excluded_names, kept_off_in_vain
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan, ended


def next_incarnations(plan: Plan, slots: Iterable[int]) -> Plan:
    """The plan with these slots' next incarnations reserved: above status and every live pod."""
    occupied = plan.seen.occupied
    reserved = {slot: 1 + max(plan.incarnation(slot), occupied.get(slot, -1)) for slot in slots}
    for p in plan.seen.pods:
        if p.role == "worker" and p.slot in reserved:
            reserved[p.slot] = max(reserved[p.slot], 1 + p.incarnation)
    named = {str(slot): incarnation for slot, incarnation in reserved.items()}
    return plan.write(
        incarnations={**plan.status.incarnations, **named},
        awaited=tuple(sorted({*plan.status.awaited, *reserved})),
    )


def mark_workers_seen(plan: Plan) -> Plan:
    """The plan with new slots awaited, and pods that are there awaited no more.

    A slot that is added may have been one before: its old spare, gone or on its way out, is no
    loss, so that the slot goes on with the next incarnation.
    """
    if not plan.live:
        return plan
    fresh = {*range(plan.status.slots, len(plan.slots))} - {*plan.status.awaited}
    if plan.status.slots:
        old = plan.worker_pods()
        plan = next_incarnations(plan, {s for s in fresh if s not in old or _idle(plan, old[s])})
    if not plan.status.awaited and not fresh and plan.status.slots == len(plan.slots):
        return plan
    awaited = {*plan.status.awaited, *fresh} - plan.worker_pods().keys()
    return plan.write(
        awaited=tuple(slot for slot in sorted(awaited) if slot in plan.slots),
        slots=len(plan.slots),
    )


def pass_over_occupied_names(plan: Plan) -> Plan:
    """The plan with the next incarnation of slots whose pod's name is held by the pod of an earlier
    job of this name, which may be on a dead node and stay for as long as that."""
    if not plan.live or not plan.seen.occupied:
        return plan
    present = plan.worker_pods()
    held = [
        slot
        for slot, incarnation in sorted(plan.seen.occupied.items())
        if slot in plan.slots and slot not in present and plan.incarnation(slot) <= incarnation
    ]
    return next_incarnations(plan, held) if held else plan


def replace_pod(plan: Plan, slot: int, reason: str) -> Plan:
    """The plan with a slot's pod replaced."""
    plan = next_incarnations(plan, (slot,))
    text = f"Slot {slot} gets a new pod (incarnation {plan.incarnation(slot)}): {reason}"
    return plan.tell("Normal", EventReason.POD_REPLACED, text)


def remake_waiting_pods(plan: Plan) -> Plan:
    """The plan with new pods for those that wait for a node because they keep off one in vain."""
    if not plan.training:
        return plan
    waiting = [pod for pod in plan.worker_pods().values() if pod.phase == "Pending"]
    for p in sorted(waiting, key=lambda pod: pod.slot):
        slot = p.slot
        plan, in_vain = kept_off_in_vain(plan, p)
        if in_vain:
            plan = replace_pod(
                plan, slot, f"pod {p.name} waits and may use nodes again that it avoids"
            )
    return plan


def creations(plan: Plan) -> tuple[CreatePod, ...]:
    """Worker pods that status wants and the cluster lacks."""
    if not plan.training:
        return ()
    present = plan.worker_pods()
    excluded = excluded_names(plan)
    return tuple(
        CreatePod(
            role="worker",
            slot=slot,
            incarnation=plan.incarnation(slot),
            zone=plan.status.zone,
            excluded_nodes=excluded,
        )
        for slot in plan.slots
        if slot not in present
    )


def deletions(plan: Plan) -> tuple[DeletePod, ...]:
    """Pods of incarnations that no longer count, and surplus spares.

    The newest one of a slot that ended by itself stays, so that its log can still be read.
    """
    if not plan.live:
        return ()
    old = plan.superseded()
    readable = _newest_ended(old)
    deletes = [_delete(plan, p) for p in old if p.uid not in readable]
    beyond = (p for p in plan.worker_pods().values() if p.slot not in plan.slots)
    deletes += [_delete(plan, p) for p in beyond if _idle(plan, p)]
    return tuple(d for d in deletes if d is not None)


def _newest_ended(pods: tuple[PodObservation, ...]) -> frozenset[str]:
    newest: dict[tuple[str, int], PodObservation] = {}
    for p in sorted(pods, key=lambda p: p.incarnation):
        if p.phase == "Failed" and not p.deleting:
            newest[p.role, p.slot] = p
    return frozenset(p.uid for p in newest.values())


def _delete(plan: Plan, p: PodObservation) -> DeletePod | None:
    # A pod whose node object is gone has no kubelet that could ever confirm its end.
    orphan = bool(p.node) and p.node not in plan.seen.nodes and not ended(p)
    if p.deleting and not orphan:
        return None
    return DeletePod(name=p.name, uid=p.uid, force=p.deleting and orphan)


def _idle(plan: Plan, p: PodObservation) -> bool:
    """Whether a pod is known to hold no position."""
    if plan.live_view is None:
        return False
    told = plan.told_of(p)
    return told is None or told.position < 0
