"""Numbers of the coordinator's reports, and restarts whose reports fell off its bounded list."""

from rtj_operator.policy.incident import budgets
from rtj_operator.policy.plan import Plan, changed


def follow_restarted_process(plan: Plan) -> Plan:
    """The plan for a coordinator process that restarted within its pod: it numbers its reports
    from 1 again."""
    view, known = plan.view, plan.status.coordinator
    if view is None or not plan.training:
        return plan
    newest = max((report.number for report in view.faults), default=0)
    if newest >= known.absorbed_fault:
        return plan
    return plan.write(
        coordinator=changed(known, absorbed_fault=0, absorbed_in_process=0, absorbed_in_job=0)
    )


def count_unreported_restarts(plan: Plan) -> Plan:
    """The plan with the counters of restarts brought up to the coordinator's."""
    view, known = plan.view, plan.status.coordinator
    if view is None or not plan.training:
        return plan
    fresh = [r for r in view.faults if r.number > known.absorbed_fault]
    if not fresh:
        return plan
    if fresh[0].number > known.absorbed_fault + 1:
        told = {kind: sum(r.kind == kind for r in fresh) for kind in ("exception", "exit")}
        in_process = view.in_process_restarts - known.absorbed_in_process - told["exception"]
        in_job = view.in_job_restarts - known.absorbed_in_job - told["exit"]
        restarts = plan.status.restarts
        restarts = changed(
            restarts,
            in_process=restarts.in_process + max(0, in_process),
            in_job=restarts.in_job + max(0, in_job),
        )
        plan = plan.write(restarts=budgets.summed(restarts))
    return plan.write(
        coordinator=changed(
            known,
            absorbed_in_process=view.in_process_restarts,
            absorbed_in_job=view.in_job_restarts,
        )
    )
