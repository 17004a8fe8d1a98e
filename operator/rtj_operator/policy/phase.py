"""One word and few conditions: what `kubectl get` and `kubectl wait` show of a job.

The phase follows from the conditions, never the other way round.
"""

from typing import Final

from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_api.status import Condition
from rtj_operator.policy import outage
from rtj_operator.policy.available import hindrance, steady
from rtj_operator.policy.conditions import with_condition
from rtj_operator.policy.pending import Signal, judging, noted
from rtj_operator.policy.plan import Plan, changed, runs

UNHEARD: Final = (
    "The operator does not hear the coordinator, so whether new steps arrive is not known: look at "
    "the coordinator's pod and its node."
)


def running(plan: Plan) -> Plan:
    """The Running condition: True while steps are made and nothing is being recovered from."""
    if plan.holds(ConditionType.SUSPENDED) or plan.finished or plan.stopping:
        ended_ = "stops" if plan.stopping else "does not run"
        reason = Reason.SUSPENDING if plan.stopping else _end_reason(plan)
        return with_condition(plan, ConditionType.RUNNING, "False", reason, f"The job {ended_}.")
    if not plan.started:
        return plan
    if recovering(plan):
        recovery = plan.status.recovery
        text = recovery.reason if recovery else "A worker is silent; its node is being judged."
        return with_condition(plan, ConditionType.RUNNING, "False", Reason.RECOVERING, text)
    if plan.steps or plan.holds(ConditionType.RUNNING):
        return _trains(plan)
    if plan.holds(ConditionType.NODES_AVAILABLE):
        unheard = "" if plan.live_view else " The coordinator is not reached yet."
        reason, text = Reason.WAITING_FOR_FIRST_STEP, f"All workers run; no step yet.{unheard}"
    else:
        reason, text = Reason.WAITING_FOR_PODS, "Workers are being scheduled or started."
    return with_condition(plan, ConditionType.RUNNING, "False", reason, text)


def _trains(plan: Plan) -> Plan:
    """Running stays True without a view, which is no proof that training stands; it says so."""
    reason, text = Reason.TRAINING, "New steps arrive."
    if plan.live_view is None:
        left = plan.spec.resilience.heartbeat.timeout_seconds - plan.seen.view_lost_seconds
        if left > 0:
            plan = plan.wake_at(plan.now + left)
        else:
            reason, text = Reason.COORDINATOR_UNHEARD, UNHEARD
    return with_condition(plan, ConditionType.RUNNING, "True", reason, text)


def recovering(plan: Plan) -> bool:
    """Whether a recovery is under way, or a lost worker is being judged."""
    return plan.training and (plan.status.recovery is not None or judging(plan))


def degraded(plan: Plan) -> Plan:
    """The Degraded condition: what is missing of workers, spares and coordinator."""
    if not plan.training:
        return plan
    if noted(plan, Signal.OUTAGE):
        return with_condition(
            plan, ConditionType.DEGRADED, "True", Reason.NODES_UNREACHABLE, outage.TEXT
        )
    up = {slot for slot, pod in plan.workers().items() if runs(pod)}
    missing = [slot for slot in plan.slots if slot not in up]
    if not missing and runs(plan.coordinator):
        text = "All workers, spares and the coordinator run."
        return with_condition(plan, ConditionType.DEGRADED, "False", Reason.HEALTHY, text)
    found = hindrance(plan)
    why = f" {steady(plan, ConditionType.DEGRADED, *found)}" if found else ""
    slots = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    if len(up) < plan.nodes:
        reason, text = Reason.WORKER_MISSING, f"No running pod in slots {slots}.{why}"
    elif missing:
        reason, text = Reason.SPARE_MISSING, f"No running pod in slots {slots}.{why}"
    else:
        reason, text = Reason.COORDINATOR_MISSING, f"The coordinator does not run.{why}"
    if plan.status.first_step_time is None:
        return with_condition(
            plan, ConditionType.DEGRADED, "False", Reason.WAITING_FOR_PODS, "The job starts."
        )
    return with_condition(plan, ConditionType.DEGRADED, "True", reason, text)


def workers(plan: Plan) -> Plan:
    """The WORKERS and SPARES columns; left as they are while no view says who does what."""
    if plan.status.workers.desired == 0:
        return plan
    old = plan.status.workers
    if not plan.live:
        fresh = changed(old, ready=0, spares=0)
    elif plan.live_view is None and any(runs(pod) for pod in plan.workers().values()):
        fresh = old
    else:
        fresh = changed(old, **_told(plan))
    return plan.write(workers=changed(fresh, summary=f"{fresh.ready}/{fresh.desired}"))


def _told(plan: Plan) -> dict[str, int]:
    view = plan.live_view
    up = {pod.uid for pod in plan.workers().values() if runs(pod)}
    known = [w for w in view.workers if plan.hears(w) and w.pod_uid in up] if view else []
    ready = sum(w.position >= 0 for w in known)
    return {"ready": ready, "spares": len(known) - ready}


def conclude(plan: Plan) -> Plan:
    """Phase, reason and message, from the conditions."""
    phase, shown = _phase(plan)
    reason = shown.reason if shown else ""
    message = shown.message if shown else ""
    if phase is Phase.FAILED and plan.seen.job.status.phase is not Phase.FAILED:
        plan = plan.tell("Warning", EventReason.FAILED, f"{reason}: {message}")
    return plan.write(
        phase=phase,
        reason=reason,
        message=message,
        observed_generation=plan.seen.job.generation,
    )


def _phase(plan: Plan) -> tuple[Phase, Condition | None]:
    get = plan.condition
    for type_, phase in (
        (ConditionType.FAILED, Phase.FAILED),
        (ConditionType.COMPLETE, Phase.COMPLETE),
        (ConditionType.SUSPENDED, Phase.SUSPENDED),
    ):
        if plan.holds(type_):
            waits = phase is Phase.SUSPENDED and not plan.spec.suspend
            return phase, get(ConditionType.ZONE_RESOLVED if waits else type_)
    if plan.stopping:
        return Phase.SUSPENDING, get(ConditionType.RUNNING)
    zone, available = get(ConditionType.ZONE_RESOLVED), get(ConditionType.NODES_AVAILABLE)
    hindered = available is not None and available.reason != Reason.WAITING_FOR_PODS
    short = available if available is not None and available.status != "True" else None
    if recovering(plan):
        return Phase.RECOVERING, short if short and hindered else get(ConditionType.RUNNING)
    if plan.holds(ConditionType.RUNNING):
        return Phase.RUNNING, get(ConditionType.RUNNING)
    if plan.live and short is None:
        return Phase.STARTING, get(ConditionType.RUNNING)
    return Phase.PENDING, short if plan.live else zone


def _end_reason(plan: Plan) -> Reason:
    for type_ in (ConditionType.FAILED, ConditionType.COMPLETE, ConditionType.SUSPENDED):
        found = plan.condition(type_)
        if found is not None and found.status == "True":
            return Reason(found.reason)
    return Reason.SUSPENDED
