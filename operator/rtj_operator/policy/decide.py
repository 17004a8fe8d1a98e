"""The operator's brain: one snapshot in, the next status and the effects out.

The order of the rules is behaviour. First whatever ends the job, so that no recovery starts on
its way out, and what broke before is counted; then what happened since the last look, control
before workers, since a lost coordinator explains silent workers; then what is overdue; last what
people read. Effects follow from the status so decided, never from a rule's memory of this pass, so
that after a crash between status write and effect the next pass finds the same left to do.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from rtj_operator.policy import (
    absorb,
    accept,
    available,
    closing,
    control,
    directive,
    ladder,
    lifecycle,
    nodes,
    pending,
    phase,
    progress,
    recovery,
    repeats,
    stop,
    workers,
)
from rtj_operator.policy.decision import Action, Decision, EmitEvent
from rtj_operator.policy.observation import Observation
from rtj_operator.policy.plan import Plan, Rule

# Events of one kind that are told singly in one pass.
ALIKE_MAX: Final = 3

RULES: Final[tuple[Rule, ...]] = (
    closing.take_in,
    stop.complete,
    stop.leave,
    lifecycle.begin,
    progress.first_step,
    control.meet,
    control.replace_lost,
    workers.meet,
    absorb.reports,
    absorb.lost_pods,
    recovery.end_recovered,
    repeats.exclude_proven,
    nodes.confirm,
    stop.await_gang,
    ladder.climb_overdue,
    nodes.release,
    control.let_loose,
    workers.let_loose,
    available.nodes_available,
    phase.degraded,
    phase.running,
    phase.workers,
    phase.conclude,
    progress.observe,
    stop.linger,
    pending.sweep,
)


def decide(observation: Observation) -> Decision:
    """What status the job has now and what is to be done; pure, and the same for the same input."""
    plan = accept.accept(observation)
    if isinstance(plan, Decision):
        return plan
    for rule in RULES:
        plan = rule(plan)
    return Decision(
        status=plan.status,
        actions=(*told(plan.events), *effects(plan)),
        wake_after_seconds=_wake(plan),
        counted=plan.counted,
    )


def told(events: tuple[EmitEvent, ...]) -> tuple[EmitEvent, ...]:
    """The Events of a pass; of many of one kind the first, which says how many follow."""
    kinds = Counter((event.type, event.reason) for event in events)
    kept: list[EmitEvent] = []
    for event in events:
        kind = event.type, event.reason
        more = kinds[kind] - 1
        if more < ALIKE_MAX:
            kept.append(event)
        elif more and all((e.type, e.reason) != kind for e in kept):
            text = f"{more + 1} at once; the first: {event.message}"
            kept.append(replace(event, message=text[:1024]))
    return tuple(kept)


def effects(plan: Plan) -> tuple[Action, ...]:
    """What status wants and the cluster lacks, in order: whom to stop, then what to make."""
    return (
        *control.children(plan),
        *directive.directive(plan),
        *workers.deletions(plan),
        *workers.creations(plan),
        *nodes.taints(plan),
        *nodes.releases(plan),
        *stop.wind_down(plan),
        *stop.expire(plan),
    )


def _wake(plan: Plan) -> float | None:
    if not plan.wakes:
        return None
    return max(0.0, min(plan.wakes) - plan.now)
