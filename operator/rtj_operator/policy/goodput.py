"""Share of the wall time since the first step in which new steps were made (ETTR).

Lost is what recoveries took, from the last sign of life to the first step beyond the highest
before, so that steps made a second time count as lost. Time spent suspended counts as neither.
"""

from rtj_api.ladder import Rung
from rtj_api.status import Goodput
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.times import unix


def lose(plan: Plan, rung: Rung, begin: float, end: float) -> Plan:
    """The plan with the time from `begin` to `end` lost to a recovery, as far as none lost it yet;
    nothing before the first step is lost."""
    first = plan.status.first_step_time
    if first is None:
        return plan
    old = plan.status.goodput or Goodput()
    seconds = max(0.0, end - max(begin, unix(first), old.lost_until_unix))
    lost = {**old.lost, rung: round(old.lost.get(rung, 0.0) + seconds, 3)}
    until = max(end, old.lost_until_unix)
    return plan.write(goodput=changed(old, lost=lost, lost_until_unix=until))


def observe(plan: Plan) -> Plan:
    """The plan with the wall time since the last observation added; called before that is moved."""
    first = plan.status.first_step_time
    if first is None:
        return plan
    old = plan.status.goodput or Goodput()
    observed = plan.status.progress.observed_time
    since = max(unix(first), unix(observed)) if observed is not None else unix(first)
    elapsed = old.elapsed_seconds + max(0.0, int(plan.now) - since)
    unproductive = sum(old.lost.values()) + _being_lost(plan, max(unix(first), old.lost_until_unix))
    productive = max(0.0, elapsed - unproductive)
    share = f"{100 * productive / elapsed:.1f}%" if elapsed > 0 else ""
    return plan.write(
        goodput=changed(
            old,
            elapsed_seconds=elapsed,
            productive_seconds=round(productive, 3),
            summary=share,
        )
    )


def _being_lost(plan: Plan, since: float) -> float:
    """Seconds since then that the recovery under way has taken so far."""
    recovery = plan.status.recovery
    if recovery is None:
        return 0.0
    return max(0.0, plan.now - max(since, recovery.detected_unix - recovery.detected_seconds))
