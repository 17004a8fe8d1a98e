"""Share of the wall time since the first step in which new steps were made (ETTR).

Lost is what recoveries took, from the last sign of life to the first step beyond the highest
before, so that steps made a second time count as lost. Time spent suspended counts as neither.
"""

from rtj_api.ladder import Rung
from rtj_api.status import Goodput
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.times import unix


def lose(plan: Plan, rung: Rung, seconds: float) -> Plan:
    """The plan with that much time lost to a recovery; nothing before the first step is lost."""
    if plan.status.first_step_time is None:
        return plan
    old = plan.status.goodput or Goodput()
    lost = round(old.lost.get(rung, 0.0) + max(0.0, seconds), 3)
    return plan.write(goodput=changed(old, lost={**old.lost, rung: lost}))


def observe(plan: Plan) -> Plan:
    """The plan with the wall time since the last observation added; called before that is moved."""
    first = plan.status.first_step_time
    if first is None:
        return plan
    old = plan.status.goodput or Goodput()
    observed = plan.status.progress.observed_time
    since = max(unix(first), unix(observed)) if observed is not None else unix(first)
    elapsed = old.elapsed_seconds + max(0.0, int(plan.now) - since)
    productive = max(0.0, elapsed - sum(old.lost.values()))
    share = f"{100 * productive / elapsed:.1f}%" if elapsed > 0 else ""
    return plan.write(
        goodput=changed(
            old,
            elapsed_seconds=elapsed,
            productive_seconds=round(productive, 3),
            summary=share,
        )
    )
