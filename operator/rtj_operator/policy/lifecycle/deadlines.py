"""Deadlines of a job that is to train: all workers must run and be heard of in time, at first and
after each loss; and no deadline runs while nobody leads."""

import math
from typing import Final

from rtj_api.reasons import ConditionType, Reason
from rtj_operator.policy import clocks
from rtj_operator.policy.clocks import Clock
from rtj_operator.policy.conditions import fail
from rtj_operator.policy.incident.reservation import renewed
from rtj_operator.policy.plan import Plan, changed, runs
from rtj_operator.policy.times import rfc3339, unix

# What an incomplete gang lacks: pods, or only somebody who tells of them.
_PODS: Final = "workers"
_VIEW: Final = "view"
# Shorter times without a leader are a change of leaders.
UNLED_SECONDS: Final = 10.0


def discount_unled_time(plan: Plan) -> Plan:
    """The plan with its clocks and deadlines put off by the time in which no operator led, once
    in each leadership. A change of leaders that takes seconds puts nothing off: it is no outage,
    and a status that had to be written at each would hold recoveries up."""
    status, seconds = plan.status, float(math.ceil(plan.seen.unled_seconds))
    if not status.pending and status.recovery is None:
        return plan
    if plan.seen.epoch == status.epoch or seconds < UNLED_SECONDS:
        return plan
    pending = tuple(
        changed(entry, first_seen_time=_later(plan, entry.first_seen_time, seconds))
        for entry in status.pending
    )
    recovery = status.recovery
    if recovery is not None:
        due = rfc3339(unix(recovery.deadline_time) + seconds)
        recovery = changed(recovery, deadline_time=due)
    return plan.write(epoch=plan.seen.epoch, pending=pending, recovery=recovery)


def _later(plan: Plan, time: str, seconds: float) -> str:
    return rfc3339(min(plan.now, unix(time) + seconds))


def remember_epoch(plan: Plan) -> Plan:
    """The plan with this leadership remembered where a clock or a deadline begins in it."""
    status, before = plan.status, plan.seen.job.status
    begun = (status.pending, status.recovery) != (before.pending, before.recovery)
    if plan.seen.epoch and begun and (status.pending or status.recovery is not None):
        return plan.write(epoch=plan.seen.epoch)
    return plan


def await_gang(plan: Plan) -> Plan:
    """Failed when not all workers were up and heard of within the start deadline.

    When a pod was missing and all are back, a recovery's own deadline counts from then: waiting for
    a machine is not its fault. A job that has trained is never failed for a view that does not
    arrive, nor does one that comes back put anything off. Before the first step the clock runs on
    through every recovery, so that nodes which come and go do not make the deadline endless.
    """
    if not plan.training:
        return plan
    missed = clocks.started_at(plan, Clock.GANG_INCOMPLETE, _PODS) is not None
    recovery = plan.status.recovery
    complete = not gang_is_incomplete(plan)
    if complete and (plan.trained or recovery is None):
        plan = _stop_clocks(plan)
        return plan.write(recovery=renewed(plan, recovery)) if missed and recovery else plan
    missed = missed or not _all_run(plan) or not runs(plan.coordinator)
    if complete and not missed:
        return _stop_clocks(plan)
    subject = _PODS if missed else _VIEW
    if missed:
        plan = clocks.stop(plan, Clock.GANG_INCOMPLETE, _VIEW)
    limit = plan.spec.resilience.progress.start_deadline_seconds
    plan, over = clocks.lasted(plan, Clock.GANG_INCOMPLETE, subject, limit)
    if not over or complete or (plan.live_view is None and _all_run(plan) and plan.trained):
        return plan
    available = plan.condition(ConditionType.NODES_AVAILABLE)
    why = f" {available.message}" if available and available.status != "True" else ""
    text = (
        f"Not all of {plan.nodes} workers were running and connected within {limit} s "
        f"(spec.resilience.progress.startDeadlineSeconds).{why}"
    )
    return fail(plan, Reason.START_DEADLINE_EXCEEDED, text)


def gang_is_incomplete(plan: Plan) -> bool:
    """Whether not all workers that train run and are heard of."""
    if not _all_run(plan):
        return True
    judging = clocks.runs(plan, Clock.JUDGING) or clocks.runs(plan, Clock.UNHEARD)
    trained = plan.holds(ConditionType.RUNNING) or judging or plan.steps
    if trained and plan.status.recovery is None:
        return False
    view = plan.live_view
    return view is None or sum(map(plan.hears, view.workers)) < plan.nodes


def _stop_clocks(plan: Plan) -> Plan:
    plan = clocks.stop(plan, Clock.GANG_INCOMPLETE, _PODS)
    return clocks.stop(plan, Clock.GANG_INCOMPLETE, _VIEW)


def _all_run(plan: Plan) -> bool:
    return len(plan.running_workers()) >= plan.nodes
