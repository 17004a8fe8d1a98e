"""How often a rung may be used: a sliding window each; a spent one sends a fault a rung up."""

from typing import Final

from rtj_api.ladder import Rung
from rtj_api.status import RestartsStatus
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.times import unix

_COUNTERS: Final[dict[Rung, str]] = {
    Rung.IN_PROCESS: "in_process",
    Rung.IN_JOB: "in_job",
    Rung.POD: "pod",
    Rung.NODE: "node",
    Rung.GANG: "gang",
}


def within(plan: Plan, times: tuple[str, ...], window_seconds: float) -> tuple[str, ...]:
    """Those of the times that lie in the window. Whole seconds: one on the edge is still in."""
    return tuple(t for t in times if int(plan.now) - unix(t) <= window_seconds)


def spent(plan: Plan, rung: Rung) -> bool:
    """Whether the rung's budget is used up."""
    if rung is Rung.FAILED:
        return False
    settings = plan.rung_spec(rung)
    used = within(plan, plan.status.windows.get(rung, ()), settings.window_seconds)
    return len(used) >= settings.limit


def free_at(plan: Plan, rung: Rung) -> float:
    """Unix seconds at which a spent rung has a recovery left again, if its limit is not 0."""
    used = plan.status.windows.get(rung, ())
    oldest = min(map(unix, used), default=plan.now)
    return oldest + plan.rung_spec(rung).window_seconds + 1


def spend(plan: Plan, rung: Rung) -> Plan:
    """The plan with one more recovery of that rung in its window."""
    settings = plan.rung_spec(rung)
    used = within(plan, plan.status.windows.get(rung, ()), settings.window_seconds)
    return plan.write(windows={**plan.status.windows, rung: (*used, plan.now_text)})


def refund(plan: Plan, rung: Rung) -> Plan:
    """The plan without the newest recovery of that rung, which turned out to be another's."""
    used = plan.status.windows.get(rung, ())
    plan = plan.write(windows={**plan.status.windows, rung: used[:-1]})
    return _count(plan, rung, -1)


def count(plan: Plan, rung: Rung) -> Plan:
    """The plan with that rung's counter one higher."""
    return _count(plan, rung, 1)


def _count(plan: Plan, rung: Rung, by: int) -> Plan:
    field = _COUNTERS[rung]
    restarts = plan.status.restarts
    return plan.write(
        restarts=summed(changed(restarts, **{field: max(0, getattr(restarts, field) + by)}))
    )


def summed(restarts: RestartsStatus) -> RestartsStatus:
    """The counters with their column string."""
    counters = (getattr(restarts, field) for field in _COUNTERS.values())
    return changed(restarts, summary="/".join(str(n) for n in counters))


def exceeded(plan: Plan, rung: Rung) -> str:
    """Why no rung is left, in words that name the field to raise."""
    name = rung.value[0].lower() + rung.value[1:]
    settings = plan.rung_spec(rung)
    return (
        f"More than {settings.limit} recoveries within {settings.window_seconds} s "
        f"(spec.resilience.{name}.limit), and no rung above has any left."
    )
