"""One pass over everything that tells of a fault: the view's reports, lost pods, node states and
silence. It changes nothing but clocks; what is done about the batch is for `incident`."""

from rtj_api.messages import JobView
from rtj_operator.policy import clocks
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.breaker import breaker_open
from rtj_operator.policy.signals.control import find_lost_coordinator
from rtj_operator.policy.signals.fault import Batch, Fault
from rtj_operator.policy.signals.pods import find_lost_pods
from rtj_operator.policy.signals.reports import (
    became_a_loss,
    is_replaced,
    judge_report,
    judge_without_delay,
    start_judging,
)
from rtj_operator.policy.signals.sight import Sight


def gather(plan: Plan) -> tuple[Plan, Batch]:
    """The plan with its clocks running, and the faults that are judged by now."""
    judged = plan.status.coordinator.absorbed_fault
    if not plan.training:
        batch = Batch(judged_report=judged, breaker_open=breaker_open(plan))
        return clocks.keep_only(plan, clocks.GATHERED, ()), batch
    sight = Sight(plan)
    control = find_lost_coordinator(sight)
    reports: list[Fault] = []
    if plan.view is not None:
        reports, judged = _judge_reports(sight, plan.view)
    pods = find_lost_pods(sight)
    faults = (*((control,) if control else ()), *reports, *pods)
    plan = clocks.keep_only(sight.plan, clocks.GATHERED, sight.seen)
    return plan, Batch(faults=faults, judged_report=judged, breaker_open=sight.breaker_open)


def keep_clocks(plan: Plan) -> Plan:
    """The plan with the clocks of what is still to be judged, after a batch was taken in: what was
    acted on has none any more, and what found none may take its place."""
    return gather(plan)[0]


def _judge_reports(sight: Sight, view: JobView) -> tuple[list[Fault], int]:
    """New reports in their order, up to the first that cannot be judged yet, and its number."""
    judged = sight.plan.status.coordinator.absorbed_fault
    faults: list[Fault] = []
    for i, report in enumerate(view.faults):
        known = report.number <= sight.plan.status.coordinator.absorbed_fault
        if known and not became_a_loss(sight.plan, report):
            continue
        if is_replaced(sight.plan, report):
            fault = judge_without_delay(sight.plan, report)
        else:
            fault = judge_report(sight, report)
        if fault is not None:
            faults.append(fault)
        elif not known:
            for waiting in view.faults[i + 1 :]:
                start_judging(sight, waiting)
            break
        if not known:
            judged = report.number
    return faults, judged
