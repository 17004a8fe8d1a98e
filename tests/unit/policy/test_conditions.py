"""Conditions move in time only when they turn."""

from rtj_api.reasons import ConditionType, Reason
from rtj_operator.policy.conditions import fail, with_condition
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_a_new_reason_keeps_the_transition_time() -> None:
    seen = build.running(now=NOW + 60)
    plan = with_condition(
        build.plan(seen), ConditionType.RUNNING, "True", Reason.RESUMED, "other words"
    )
    got = plan.condition(ConditionType.RUNNING)
    assert got is not None
    assert (got.reason, got.last_transition_time) == (Reason.RESUMED, "2027-01-15T08:00:00Z")


def test_a_turn_moves_the_transition_time() -> None:
    seen = build.running(now=NOW + 60)
    plan = with_condition(build.plan(seen), ConditionType.RUNNING, "False", Reason.RECOVERING)
    got = plan.condition(ConditionType.RUNNING)
    assert got is not None
    assert got.last_transition_time == "2027-01-15T08:01:00Z"


def test_the_same_condition_changes_nothing() -> None:
    plan = build.plan(build.running())
    old = plan.condition(ConditionType.RUNNING)
    assert old is not None
    same = with_condition(plan, old.type, old.status, Reason(old.reason), old.message)
    assert same.status is plan.status


def test_failed_has_a_completion_time() -> None:
    plan = fail(build.plan(build.running()), Reason.NO_PROGRESS, "why")
    assert plan.finished
    assert plan.status.completion_time == "2027-01-15T08:00:00Z"
