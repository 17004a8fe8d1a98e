"""How often a rung may be used: a sliding window each; a spent one sends a fault a rung up.

A job that has made no step yet spends nothing: its start has a deadline. Budgets grow with the job,
since a thousand nodes have a thousand times as many faults as one.
"""

from typing import Final

from rtj_api.ladder import Rung
from rtj_api.spec import RungLimits
from rtj_api.status import RestartsStatus
from rtj_operator.policy.incident.transitions import Cost
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


def limit_of(plan: Plan, limits: RungLimits) -> int:
    """Recoveries that may lie in the window, for a job of this size; a limit of 0 stays 0."""
    grown = plan.nodes * limits.limit_per_100_nodes // 100
    return max(limits.limit, grown) if limits.limit else 0


def spent(plan: Plan, rung: Rung) -> bool:
    """Whether the rung's budget is used up."""
    if rung is Rung.FAILED or not plan.trained:
        return False
    limits = plan.limits(rung)
    used = within(plan, plan.status.windows.get(rung, ()), limits.window_seconds)
    return len(used) >= limit_of(plan, limits)


def displacements_spent(plan: Plan) -> bool:
    """Whether pods were displaced so often that it may be the program's doing, such as one that
    fills its disk and is evicted for it."""
    limits = plan.spec.resilience.displaced
    used = within(plan, plan.status.displacements, limits.window_seconds)
    return plan.trained and len(used) >= limit_of(plan, limits)


def free_at(plan: Plan, rung: Rung) -> float:
    """Unix seconds at which a spent rung has a recovery left again, if its limit is not 0."""
    used = plan.status.windows.get(rung, ())
    oldest = min(map(unix, used), default=plan.now)
    return oldest + plan.limits(rung).window_seconds + 1


def spend(plan: Plan, rung: Rung, cost: Cost) -> Plan:
    """The plan with one more recovery in the window that it is taken from."""
    if cost is Cost.NOTHING or not plan.trained:
        return plan
    if cost is Cost.DISPLACED:
        window = plan.spec.resilience.displaced.window_seconds
        used = within(plan, plan.status.displacements, window)
        return plan.write(displacements=(*used, plan.now_text))
    used = within(plan, plan.status.windows.get(rung, ()), plan.limits(rung).window_seconds)
    return plan.write(windows={**plan.status.windows, rung: (*used, plan.now_text)})


def spent_in_this_pass(plan: Plan, rung: Rung, cost: Cost) -> bool:
    """Whether a recovery was just taken from that budget: what the same pass found is one break."""
    if cost is Cost.DISPLACED:
        return plan.now_text in plan.status.displacements
    return plan.now_text in plan.status.windows.get(rung, ())


def refund(plan: Plan, rung: Rung) -> Plan:
    """The plan without the newest recovery of that rung, which turned out to be another's."""
    used = plan.status.windows.get(rung, ())
    if used:
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
    limits = plan.limits(rung)
    return (
        f"More than {limit_of(plan, limits)} recoveries within {limits.window_seconds} s "
        f"(spec.resilience.{name}.limit), and no rung above has any left."
    )
