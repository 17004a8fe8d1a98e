"""Start, suspension before a start, and resume: when a run begins, and with which names."""

from rtj_api.reasons import ConditionType, EventReason, Reason
from rtj_api.status import WorkersStatus
from rtj_operator.policy.conditions import with_condition
from rtj_operator.policy.lifecycle import zone
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.wanted import coordinator, worker_pods


def begin(plan: Plan) -> Plan:
    """Start or resume a job that is to run, once its claim and zone are known."""
    if plan.finished or plan.live:
        return plan
    if plan.spec.suspend:
        return _hold(plan)
    plan = zone.resolve(plan)
    if not zone.resolved(plan):
        return _wait(plan)
    return _resume(plan) if plan.started else _start(plan)


def _hold(plan: Plan) -> Plan:
    text = "spec.suspend is true; set it to false to go on."
    return with_condition(plan, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, text)


def _wait(plan: Plan) -> Plan:
    if not plan.holds(ConditionType.SUSPENDED):
        return plan
    text = "spec.suspend is false; the job goes on when ZoneResolved is True."
    return with_condition(plan, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, text)


def _start(plan: Plan) -> Plan:
    plan = _new_run(plan)
    spares = f", {plan.spec.spares} in reserve" if plan.spec.spares else ""
    return plan.tell("Normal", EventReason.STARTED, f"Starting {plan.nodes} workers{spares}")


def _resume(plan: Plan) -> Plan:
    plan = _new_run(coordinator.fresh_incarnation(plan))
    plan = worker_pods.next_incarnations(plan, plan.slots)
    return plan.tell("Normal", EventReason.RESUMED, f"Run {plan.status.run} starts")


def _new_run(plan: Plan) -> Plan:
    suspended = plan.condition(ConditionType.SUSPENDED)
    plan = plan.write(
        run=plan.status.run + 1,
        run_spec_hash=plan.spec_hash,
        round=-1,
        start_time=plan.now_text,
        workers=WorkersStatus(desired=plan.spec.nodes),
        recovery=None,
        restarts_without_progress=0,
    )
    if suspended is None:
        return plan
    return with_condition(plan, ConditionType.SUSPENDED, "False", Reason.RESUMED)
