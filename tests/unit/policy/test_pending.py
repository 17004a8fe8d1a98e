"""Clocks of signs that must last."""

from rtj_api.status import PENDING_MAX
from rtj_operator.policy.pending import (
    CLOCKS_MAX,
    Signal,
    clock,
    lasted,
    note,
    settled,
    stopped,
    sweep,
)
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


def test_a_stopped_clock_is_gone_within_the_pass_and_others_run_on() -> None:
    plan = note(build.plan(build.running()), Signal.SUSPENDING, "job")
    plan = stopped(note(plan, Signal.JUDGING, "p"), Signal.SUSPENDING, "job")
    assert clock(plan, Signal.SUSPENDING, "job") is None
    assert clock(sweep(plan), Signal.JUDGING, "p") == NOW


def test_a_sign_without_a_free_clock_waits_for_one() -> None:
    plan = build.plan(build.running())
    for i in range(CLOCKS_MAX):
        plan = note(plan, Signal.JUDGING, f"p{i}")
    plan, over = lasted(plan, Signal.JUDGING, "waits", 2.0)
    assert not over
    assert plan.wakes == (NOW + 2.0,)
    assert clock(plan, Signal.JUDGING, "waits") is None
    freed = sweep(settled(plan, "p7"))
    assert clock(freed, Signal.JUDGING, "waits") == NOW
    assert clock(freed, Signal.JUDGING, "p7") is None


def test_no_kind_of_sign_takes_another_s_clocks() -> None:
    plan = build.plan(build.running())
    for signal in Signal:
        for i in range(CLOCKS_MAX + 1):
            plan = note(plan, signal, f"p{i}")
    assert [clock(plan, signal, "p0") for signal in Signal] == [NOW] * len(Signal)
    assert len(plan.status.pending) <= PENDING_MAX
