"""Share of the wall time since the first step in which new steps were made (ETTR).

Lost is what recoveries took, from the last step before the fault, whoever noticed it when, to the
first step beyond the highest before, so that steps made a second time count as lost. Time spent
suspended counts as neither.
"""

from rtj_api.status import Goodput, LostTime, Recovery
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.times import unix


def parts_of(recovery: Recovery, end: float) -> LostTime:
    """What the seconds of an incident that ends at `end` were spent on; they add up to all of
    them."""
    begin = _begin(recovery)
    detected = min(max(recovery.detected_unix, begin), end)
    decided = min(max(recovery.decided_unix or detected, detected), end)
    waited = recovery.waited_seconds
    if recovery.waiting_unix:
        waited += max(0.0, end - recovery.waiting_unix)
    waited = min(waited, end - decided)
    resumed = recovery.resumed_unix or end
    resumed = min(max(resumed, decided + waited), end)
    return LostTime(
        detect_seconds=round(detected - begin, 3),
        decide_seconds=round(decided - detected, 3),
        wait_seconds=round(waited, 3),
        restart_seconds=round(resumed - decided - waited, 3),
        replay_seconds=round(end - resumed, 3),
    )


def lose(plan: Plan, recovery: Recovery, end: float) -> Plan:
    """The plan with the time of an incident up to `end` lost, as far as none lost it yet; nothing
    before the first step is lost."""
    first = plan.status.first_step_time
    if first is None:
        return plan
    old = plan.status.goodput or Goodput()
    begin = max(_begin(recovery), unix(first), old.lost_until_unix)
    seconds = max(0.0, end - begin)
    rung = recovery.rung
    lost = {**old.lost, rung: round(old.lost.get(rung, 0.0) + seconds, 3)}
    until = max(end, old.lost_until_unix)
    parts = _added(old.parts, parts_of(recovery, end), seconds)
    return plan.write(goodput=changed(old, lost=lost, parts=parts, lost_until_unix=until))


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


def _begin(recovery: Recovery) -> float:
    """When training stood still."""
    return recovery.stalled_unix or recovery.detected_unix - recovery.detected_seconds


def _added(old: LostTime, fresh: LostTime, seconds: float) -> LostTime:
    """The parts with those of one more incident, of which only the last `seconds` are lost by it:
    what an incident before it lost already is taken from its first parts."""
    over = sum(fresh.model_dump().values()) - seconds
    total: dict[str, float] = {}
    for name, value in fresh.model_dump().items():
        taken = min(value, max(0.0, over))
        over -= taken
        total[name] = round(getattr(old, name) + value - taken, 3)
    return LostTime(**total)


def _being_lost(plan: Plan, since: float) -> float:
    """Seconds since then that the recovery under way has taken so far."""
    recovery = plan.status.recovery
    return 0.0 if recovery is None else max(0.0, plan.now - max(since, _begin(recovery)))
