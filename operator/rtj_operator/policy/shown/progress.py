"""Training progress in status: with every turn of the job, otherwise at most once a minute."""

from typing import Final

from rtj_api.reasons import ConditionType, Phase
from rtj_api.status import ProgressStatus
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.shown import goodput
from rtj_operator.policy.times import unix

PROGRESS_SECONDS: Final = 60.0
# Phases in which no time passes for a job.
AT_REST: Final = frozenset({Phase.SUSPENDED, Phase.COMPLETE, Phase.FAILED})


def mark_first_step(plan: Plan) -> Plan:
    """The plan with the time of the job's first step."""
    view = plan.view
    if plan.status.first_step_time is not None or view is None or view.step < 0:
        return plan
    return plan.write(first_step_time=plan.now_text)


def show_progress(plan: Plan) -> Plan:
    """The plan with step, checkpoint, round and goodput, if it is time to write them."""
    if not plan.started:
        return plan
    fresh, round_ = _fresh(plan)
    if not _turned(plan):
        if fresh == plan.status.progress and round_ == plan.status.round:
            return plan
        last = plan.status.progress.observed_time
        due = unix(last) + PROGRESS_SECONDS if last is not None else plan.now
        if plan.now < due:
            return plan.wake_at(due)
    if plan.seen.job.status.phase not in AT_REST:
        plan = goodput.observe(plan)
    return plan.write(progress=changed(fresh, observed_time=plan.now_text), round=round_)


def _fresh(plan: Plan) -> tuple[ProgressStatus, int]:
    view, old = plan.view, plan.status.progress
    if view is None or view.run != plan.status.run:
        return old, plan.status.round
    step = view.highest_step if plan.holds(ConditionType.COMPLETE) else view.step
    fresh = changed(
        old,
        step=step if step >= 0 else old.step,
        highest_step=max(old.highest_step, view.highest_step),
        checkpoint_step=max(old.checkpoint_step, view.checkpoint_step),
    )
    return fresh, max(plan.status.round, view.round)


def _turned(plan: Plan) -> bool:
    """Whether this pass changed the job's phase, run or history."""
    before, now = plan.seen.job.status, plan.status
    return (before.phase, before.run, before.recovery, len(before.history)) != (
        now.phase,
        now.run,
        now.recovery,
        len(now.history),
    ) or before.history[-1:] != now.history[-1:]
