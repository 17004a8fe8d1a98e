"""What broke shortly before the end and no pass has taken in: counted, and no more acted on.

A job may finish while a new leader is still waiting for its lease; its history must name those
faults all the same.
"""

from rtj_api.messages import FaultReport
from rtj_operator.policy import ladder, recovery
from rtj_operator.policy.evidence import unreachable
from rtj_operator.policy.faults import judge, lost, stale
from rtj_operator.policy.plan import Plan, changed


def take_in(plan: Plan) -> Plan:
    """With training at its end: faults that are over in history, the recovery under way too."""
    view = plan.view
    if view is None or not plan.training or view.run != plan.status.run:
        return plan
    if view.outcome.state != "succeeded":
        return plan
    plan = recovery.end_by_completion(plan)
    known = plan.status.coordinator.absorbed_fault
    fresh = [report for report in view.faults if report.number > known]
    for report in fresh:
        if report.recovered_seconds is not None and not stale(plan, report):
            plan = _record(plan, report, report.recovered_seconds)
    absorbed = max((report.number for report in fresh), default=known)
    coordinator = changed(plan.status.coordinator, absorbed_fault=absorbed)
    return plan.write(coordinator=coordinator)


def _record(plan: Plan, report: FaultReport, seconds: float) -> Plan:
    plan, verdict = judge(plan, report)
    if verdict is None:
        # The cluster has no more time to say how that worker was lost.
        pod = plan.workers()[report.slot]
        verdict = lost(report, pod, unreachable(pod))
    return ladder.record(plan, verdict, seconds, recovery.steps_lost(report.step, report))
