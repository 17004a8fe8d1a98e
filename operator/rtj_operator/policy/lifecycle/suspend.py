"""Suspension, the active deadline and an edited spec: ranks save and leave together at a step
boundary when there is training to save. Who has not left within the pods' grace is left behind."""

from typing import Any, cast

from rtj_api.reasons import ConditionType, EventReason, Reason
from rtj_operator.policy import clocks
from rtj_operator.policy.clocks import Clock
from rtj_operator.policy.conditions import fail, with_condition
from rtj_operator.policy.incident.reservation import give_up
from rtj_operator.policy.plan import Plan, runs

_JOB = "job"


def grace(plan: Plan) -> float:
    """Seconds that saving and leaving, and a pod's end, may take."""
    pod = plan.spec.template.get("spec")
    given = cast("dict[str, Any]", pod).get("terminationGracePeriodSeconds") if pod else None
    # Without a profile nothing of the job runs.
    default = plan.seen.profile.grace_seconds if plan.seen.profile else 0.0
    return float(given) if isinstance(given, int) else default


def save_and_leave(plan: Plan) -> Plan:
    """Suspended, or Failed by the active deadline, once the ranks have saved and left."""
    if not plan.stopping:
        end = plan.active_deadline
        return plan.wake_at(end) if end is not None and plan.training else plan
    plan, over = clocks.lasted(plan, Clock.SUSPENDING, _JOB, grace(plan))
    if not over and not _nothing_to_save(plan):
        reason, text = Reason.SUSPENDING, "Ranks are saving and leaving."
        if plan.spec_changed and not plan.spec.suspend:
            reason, text = Reason.SPEC_CHANGED, f"{text} A run with the edited spec follows."
        return with_condition(plan, ConditionType.SUSPENDED, "False", reason, text)
    how, in_time = _how_ranks_left(plan), _suspended_in_time(plan)
    # The job may be resumed in this very pass, which must not be taken for one that stops.
    plan = give_up(clocks.stop(plan, Clock.SUSPENDING, _JOB))
    if plan.past_active_deadline and not in_time:
        limit = plan.spec.active_deadline_seconds
        text = f"The job ran longer than spec.activeDeadlineSeconds ({limit} s). {how}."
        return fail(plan, Reason.ACTIVE_DEADLINE_EXCEEDED, text)
    text = "spec.suspend is true; set it to false to go on."
    plan = with_condition(plan, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, text)
    return plan.tell("Normal", EventReason.SUSPENDED, f"{how}; pods are deleted")


def _suspended_in_time(plan: Plan) -> bool:
    """Whether the user asked for the suspension before the active deadline: saving takes time."""
    end, since = plan.active_deadline, clocks.started_at(plan, Clock.SUSPENDING, _JOB)
    return plan.spec.suspend and since is not None and (end is None or since < end)


def _nothing_to_save(plan: Plan) -> bool:
    """Ranks have left, or never trained, or have nobody who could lead them out."""
    view = plan.view
    if not runs(plan.coordinator) or (plan.spec_changed and not plan.trained):
        return True
    if view is not None and view.run == plan.status.run:
        return _have_left(plan) or (
            plan.live_view is not None and view.ranks_training == 0 and view.step < 0
        )
    return not plan.running_workers()


def _have_left(plan: Plan) -> bool:
    view = plan.view
    if view is None or view.run != plan.status.run:
        return False
    return view.outcome.state in ("saved", "stopped")


def _how_ranks_left(plan: Plan) -> str:
    if _have_left(plan) or not plan.running_workers():
        return "All ranks left"
    if not runs(plan.coordinator):
        return "The coordinator does not run, so training ends at its last checkpoint"
    if _nothing_to_save(plan):
        return "No rank has trained yet"
    return (
        f"Not all ranks left within {grace(plan):.0f} s (terminationGracePeriodSeconds), so "
        "training may end at its last checkpoint"
    )
