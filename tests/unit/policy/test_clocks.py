"""Clocks of signs: they start once, survive the leader, and are bounded."""

from rtj_api.status import PENDING_MAX
from rtj_operator.policy import clocks
from rtj_operator.policy.clocks import CLOCKS_MAX, GATHERED, Clock
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_a_sign_has_lasted_when_its_clock_says_so() -> None:
    plan, over = clocks.lasted(build.plan(build.running()), Clock.JUDGING, "p", 2.0)
    assert not over
    assert plan.wakes == (NOW + 2.0,)
    later = build.plan(build.running(status=plan.status, now=NOW + 2))
    again, over = clocks.lasted(later, Clock.JUDGING, "p", 2.0)
    assert over
    assert clocks.started_at(again, Clock.JUDGING, "p") == NOW


def test_only_clocks_of_signs_that_are_seen_run_on() -> None:
    plan = clocks.start(build.plan(build.running()), Clock.JUDGING, "p")
    plan = clocks.start(plan, Clock.SUSPENDING, "job")
    plan = clocks.keep_only(plan, GATHERED, {(Clock.JUDGING, "q")})
    kept = [(entry.signal, entry.subject) for entry in plan.status.pending]
    assert kept == [("Suspending", "job"), ("Judging", "q")]


def test_a_sign_without_a_free_clock_waits_for_one() -> None:
    plan = build.plan(build.running())
    seen = {(Clock.JUDGING, f"p{i}") for i in range(CLOCKS_MAX)}
    plan = clocks.keep_only(plan, GATHERED, seen)
    plan, over = clocks.lasted(plan, Clock.JUDGING, "waits", 2.0)
    assert not over
    assert clocks.started_at(plan, Clock.JUDGING, "waits") is None
    fewer = (seen - {(Clock.JUDGING, "p7")}) | {(Clock.JUDGING, "waits")}
    freed = clocks.keep_only(plan, GATHERED, fewer)
    assert clocks.started_at(freed, Clock.JUDGING, "waits") == NOW
    assert clocks.started_at(freed, Clock.JUDGING, "p7") is None


def test_no_kind_of_sign_takes_another_s_clocks() -> None:
    plan = build.plan(build.running())
    for clock in Clock:
        for i in range(CLOCKS_MAX + 1):
            plan = clocks.start(plan, clock, f"p{i}")
    assert [clocks.started_at(plan, clock, "p0") for clock in Clock] == [NOW] * len(Clock)
    assert len(plan.status.pending) <= PENDING_MAX
