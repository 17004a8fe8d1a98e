"""The operator's brain: one snapshot in, the next status and the effects out.

A pass goes one way. First whatever ends, rests or starts the job, so that no recovery starts on its
way out. Then `signals` gathers everything that tells of a fault into one batch, and `incident`
judges that batch: what opens, joins or ends an incident, and which rung follows. Last comes what
people read. Effects follow from the status so decided, never from a rule's memory of this pass, so
that after a crash between status write and effect the next pass finds the same left to do.
"""

from typing import Final

from rtj_operator.policy import clocks, incident, lifecycle, nodes, shown, wanted
from rtj_operator.policy.accept import accept
from rtj_operator.policy.decision import Action, Decision
from rtj_operator.policy.observation import Observation
from rtj_operator.policy.plan import Plan, Rule
from rtj_operator.policy.signals.gather import gather, keep_clocks

BEFORE_FAULTS: Final[tuple[Rule, ...]] = (
    *lifecycle.RULES,
    *wanted.RULES_BEFORE_FAULTS,
    incident.follow_restarted_process,
)
AFTER_FAULTS: Final[tuple[Rule, ...]] = (
    nodes.release,
    *wanted.RULES_AFTER_FAULTS,
    *shown.RULES,
    lifecycle.wake_for_end,
    clocks.stop_all_at_rest,
    lifecycle.remember_epoch,
)


def decide(observation: Observation) -> Decision:
    """What status the job has now and what is to be done; pure, and the same for the same input."""
    plan = accept(observation)
    if isinstance(plan, Decision):
        return plan
    for rule in BEFORE_FAULTS:
        plan = rule(plan)
    plan, batch = gather(plan)
    plan = incident.take_in(plan, batch)
    plan = keep_clocks(plan) if batch.faults else plan
    plan = nodes.confirm(plan, batch)
    plan = lifecycle.await_gang(plan)
    incomplete = lifecycle.gang_is_incomplete(plan)
    plan = incident.climb_overdue(plan, batch, gang_incomplete=incomplete)
    for rule in AFTER_FAULTS:
        plan = rule(plan)
    return Decision(
        status=plan.status,
        actions=(*shown.fold_alike(plan.events), *effects(plan)),
        wake_after_seconds=_wake(plan),
        counted=plan.counted,
    )


def effects(plan: Plan) -> tuple[Action, ...]:
    """What status wants and the cluster lacks, in order: whom to stop, then what to make."""
    return tuple(action for find in EFFECTS for action in find(plan))


EFFECTS: Final = (*wanted.EFFECTS, *nodes.EFFECTS, *lifecycle.EFFECTS)


def _wake(plan: Plan) -> float | None:
    if not plan.wakes:
        return None
    return max(0.0, min(plan.wakes) - plan.now)
