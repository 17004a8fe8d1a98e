"""How a job ends well: every rank reached the end of training. The end stands in status before any
pod goes.

What broke shortly before the end and no pass has taken in is counted and no more acted on: a job
may finish while a new leader still waits for its lease, and its history must name those faults.
"""

from rtj_api.reasons import ConditionType, EventReason, Reason
from rtj_operator.policy.conditions import fail, with_condition
from rtj_operator.policy.incident import late, reservation
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.signals import reports


def record_late_faults(plan: Plan) -> Plan:
    """With training at its end: faults that are over in history, the open incident too."""
    view = plan.view
    if view is None or not plan.training or view.run != plan.status.run:
        return plan
    if view.outcome.state != "succeeded":
        return plan
    plan = reservation.end_by_completion(plan)
    known = plan.status.coordinator.absorbed_fault
    fresh = [report for report in view.faults if report.number > known]
    for report in fresh:
        if report.recovered_seconds is not None and not reports.is_replaced(plan, report):
            plan = late.record(plan, report, report.recovered_seconds)
    absorbed = max((report.number for report in fresh), default=known)
    coordinator = changed(plan.status.coordinator, absorbed_fault=absorbed)
    return plan.write(coordinator=coordinator)


def complete(plan: Plan) -> Plan:
    """Complete when the coordinator or the ended pods say so; Failed if a restart is useless."""
    if not plan.live:
        return plan
    view = plan.view
    outcome = view.outcome if view is not None and view.run == plan.status.run else None
    if outcome is not None and outcome.state == "refused":
        return fail(plan, Reason.DO_NOT_RESTART, f"A restart would not help: {outcome.message}")
    if (outcome is None or outcome.state != "succeeded") and not _all_finished(plan):
        return plan
    text = "Every rank reached the end of training."
    plan = with_condition(plan, ConditionType.COMPLETE, "True", Reason.TRAINING_FINISHED, text)
    plan = plan.write(completion_time=plan.now_text, recovery=None)
    return plan.tell("Normal", EventReason.COMPLETED, text)


def _all_finished(plan: Plan) -> bool:
    """As many trained positions as there are say "finished" in their termination logs."""
    messages = (pod.termination for pod in plan.worker_pods().values() if pod.termination)
    positions = {
        m.position
        for m in messages
        if m.outcome == "finished" and m.run == plan.status.run and m.position >= 0
    }
    return len(positions) >= plan.nodes
