"""Conditions of a job: set by rule, told apart by reason, moved in time only when they turn."""

from typing import Literal

from rtj_api.reasons import ConditionType, Reason
from rtj_api.status import Condition
from rtj_operator.policy.plan import Plan, changed

_ORDER = list(ConditionType)
_MESSAGE_MAX = 4096


def with_condition(
    plan: Plan,
    type_: ConditionType,
    status: Literal["True", "False", "Unknown"],
    reason: Reason,
    message: str = "",
) -> Plan:
    """The plan with that condition; `lastTransitionTime` moves only when its status turns."""
    old = plan.condition(type_)
    fresh = Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message[:_MESSAGE_MAX],
        last_transition_time=plan.now_text,
        observed_generation=plan.seen.job.generation,
    )
    if old is not None and old.status == status:
        fresh = changed(fresh, last_transition_time=old.last_transition_time)
    others = (c for c in plan.status.conditions if c.type != type_)
    ordered = sorted((*others, fresh), key=lambda c: _ORDER.index(c.type))
    return plan.write(conditions=tuple(ordered))


def fail(plan: Plan, reason: Reason, message: str) -> Plan:
    """The plan with the job failed for good."""
    plan = with_condition(plan, ConditionType.FAILED, "True", reason, message)
    return plan.write(completion_time=plan.now_text)
