"""Sliding windows of the rungs."""

import pytest

from rtj_api.ladder import Rung
from rtj_operator.policy.incident import budgets
from rtj_operator.policy.incident.transitions import Cost
from rtj_operator.policy.times import rfc3339
from tests.unit.policy import build
from tests.unit.policy.build import NOW

TWO_IN_A_MINUTE = build.spec(resilience={"pod": {"limit": 2, "windowSeconds": 60}})


@pytest.mark.parametrize(
    ("ages", "want"),
    [
        pytest.param((), False, id="never used"),
        pytest.param((10,), False, id="one left"),
        pytest.param((10, 20), True, id="both used"),
        pytest.param((10, 60), True, id="one on the edge still counts"),
        pytest.param((10, 61), False, id="one has left the window"),
    ],
)
def test_spent(ages: tuple[int, ...], want: bool) -> None:
    windows = {Rung.POD: tuple(rfc3339(NOW - age) for age in ages)}
    seen = build.running(TWO_IN_A_MINUTE, build.running_status(windows=windows))
    assert budgets.spent(build.plan(seen), Rung.POD) is want


def test_a_limit_of_zero_is_spent_from_the_start() -> None:
    seen = build.running(build.spec(resilience={"inJob": {"limit": 0}}))
    assert budgets.spent(build.plan(seen), Rung.IN_JOB)


def test_spending_forgets_what_left_the_window() -> None:
    windows = {Rung.POD: (rfc3339(NOW - 61), rfc3339(NOW - 1))}
    seen = build.running(TWO_IN_A_MINUTE, build.running_status(windows=windows))
    plan = budgets.spend(build.plan(seen), Rung.POD, Cost.RUNG)
    assert plan.status.windows[Rung.POD] == (rfc3339(NOW - 1), rfc3339(NOW))


def test_a_refund_undoes_spending_and_counting() -> None:
    plan = build.plan(build.running())
    spent = budgets.spend(budgets.count(plan, Rung.IN_PROCESS), Rung.IN_PROCESS, Cost.RUNG)
    assert spent.status.restarts.summary == "1/0/0/0/0"
    back = budgets.refund(spent, Rung.IN_PROCESS)
    assert back.status.restarts.summary == "0/0/0/0/0"
    assert back.status.windows[Rung.IN_PROCESS] == ()


def test_the_text_names_the_field_to_raise() -> None:
    plan = build.plan(build.running())
    assert "spec.resilience.inJob.limit" in budgets.exceeded(plan, Rung.IN_JOB)


def test_a_spent_rung_is_free_when_its_oldest_leaves_the_window() -> None:
    windows = {Rung.POD: (rfc3339(NOW - 50), rfc3339(NOW - 1))}
    seen = build.running(TWO_IN_A_MINUTE, build.running_status(windows=windows))
    plan = build.plan(seen)
    assert budgets.spent(plan, Rung.POD)
    assert budgets.free_at(plan, Rung.POD) == NOW + 11
