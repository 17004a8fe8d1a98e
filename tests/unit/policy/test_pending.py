"""Clocks of signs that must last."""

from rtj_api.status import PENDING_MAX
from rtj_operator.policy.pending import Signal, clock, lasted, note, settled, sweep
from tests.unit.policy import build
from tests.unit.policy.build import NOW


def test_a_clock_starts_once_and_wakes_when_it_is_over() -> None:
    plan, over = lasted(build.plan(build.running()), Signal.JUDGING, "p", 2.0)
    assert not over
    assert plan.wakes == (NOW + 2.0,)
    later = build.plan(build.running(status=plan.status, now=NOW + 2))
    again, over = lasted(later, Signal.JUDGING, "p", 2.0)
    assert over
    assert clock(again, Signal.JUDGING, "p") == NOW


def test_what_was_not_seen_in_a_pass_is_swept() -> None:
    plan = note(build.plan(build.running()), Signal.JUDGING, "p")
    later = note(build.plan(build.running(status=plan.status)), Signal.JUDGING, "q")
    assert [sign.subject for sign in sweep(later).status.pending] == ["q"]


def test_a_settled_sign_is_swept() -> None:
    plan = note(build.plan(build.running()), Signal.JUDGING, "p")
    assert sweep(settled(plan, "p")).status.pending == ()


def test_without_a_free_clock_a_sign_counts_at_once() -> None:
    plan = build.plan(build.running())
    for i in range(PENDING_MAX):
        plan = note(plan, Signal.JUDGING, f"p{i}")
    plan, over = lasted(plan, Signal.JUDGING, "one more", 2.0)
    assert over
    assert len(plan.status.pending) == PENDING_MAX
