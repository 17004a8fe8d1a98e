"""One word and few conditions: what `kubectl get` and `kubectl wait` show of a job.

The phase follows from the conditions, never the other way round.
"""

from typing import Final

from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_api.status import Condition
from rtj_operator.policy import clocks
from rtj_operator.policy.clocks import Clock
from rtj_operator.policy.conditions import with_condition
from rtj_operator.policy.plan import Plan, changed, runs
from rtj_operator.policy.shown.available import hindrance, steady
from rtj_operator.policy.signals import breaker

UNHEARD: Final = (
    "The operator does not hear the coordinator, so whether new steps arrive is not known: look at "
    "the coordinator's pod and its node."
)


def show_running(plan: Plan) -> Plan:
    """The Running condition: True while steps are made and nothing is being recovered from."""
    if plan.holds(ConditionType.SUSPENDED) or plan.finished or plan.stopping:
        ended_ = "stops" if plan.stopping else "does not run"
        reason = Reason.SUSPENDING if plan.stopping else _end_reason(plan)
        return with_condition(plan, ConditionType.RUNNING, "False", reason, f"The job {ended_}.")
    if not plan.started:
        return plan
    if is_recovering(plan):
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


def is_recovering(plan: Plan) -> bool:
    """Whether a recovery is under way, or a lost worker is being judged."""
    return plan.training and (plan.status.recovery is not None or is_judging(plan))


def is_judging(plan: Plan) -> bool:
    """Whether a lost worker in training is being judged."""
    return clocks.runs(plan, Clock.JUDGING) or clocks.runs(plan, Clock.UNHEARD)


def show_degraded(plan: Plan) -> Plan:
    """The Degraded condition: what is missing of workers, spares and coordinators."""
    if not plan.training:
        return plan
    if clocks.runs(plan, Clock.OUTAGE):
        return with_condition(
            plan, ConditionType.DEGRADED, "True", Reason.NODES_UNREACHABLE, breaker.TEXT
        )
    missing = _missing_pods(plan)
    if missing is not None and not plan.trained:
        return with_condition(
            plan, ConditionType.DEGRADED, "False", Reason.WAITING_FOR_PODS, "The job starts."
        )
    missing = missing or _missing_besides(plan)
    if missing is not None:
        return with_condition(plan, ConditionType.DEGRADED, "True", *missing)
    text = "All workers, spares and the coordinator run."
    return with_condition(plan, ConditionType.DEGRADED, "False", Reason.HEALTHY, text)


def _missing_pods(plan: Plan) -> tuple[Reason, str] | None:
    """Which pods of those that training or its spares need do not run."""
    up = plan.running_workers()
    slots = [slot for slot in plan.slots if slot not in up]
    if not slots and runs(plan.coordinator):
        return None
    found = hindrance(plan)
    why = f" {steady(plan, ConditionType.DEGRADED, *found)}" if found else ""
    named = ", ".join(map(str, slots[:8])) + (", ..." if len(slots) > 8 else "")
    if len(up) < plan.nodes:
        return Reason.WORKER_MISSING, f"No running pod in slots {named}.{why}"
    if slots:
        return Reason.SPARE_MISSING, f"No running pod in slots {named}.{why}"
    return Reason.COORDINATOR_MISSING, f"The coordinator does not run.{why}"


def _missing_besides(plan: Plan) -> tuple[Reason, str] | None:
    """What else is not as it should be while training goes on."""
    wanted = plan.status.coordinator.standby_incarnation
    if wanted and plan.trained and not runs(plan.standby):
        return Reason.STANDBY_MISSING, (
            "Training goes on, but no standby coordinator runs to take over from the first."
        )
    for child, problem in sorted(plan.seen.child_problems.items()):
        return Reason.CHILD_UNREADABLE, f"{child} is not as it should be: {problem}"
    return None


def show_worker_counts(plan: Plan) -> Plan:
    """The WORKERS and SPARES columns; left as they are while no view says who does what."""
    if plan.status.workers.desired == 0:
        return plan
    old = plan.status.workers
    if not plan.live:
        fresh = changed(old, ready=0, spares=0)
    elif plan.live_view is None and plan.running_workers():
        fresh = old
    else:
        fresh = changed(old, **_told(plan))
    return plan.write(workers=changed(fresh, summary=f"{fresh.ready}/{fresh.desired}"))


def _told(plan: Plan) -> dict[str, int]:
    view = plan.live_view
    up = {pod.uid for pod in plan.running_workers().values()}
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
    if is_recovering(plan):
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
