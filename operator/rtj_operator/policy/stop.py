"""How a job ends or rests: completion, suspension, deadlines, time to live, and winding down.

Ranks save and leave together at a step boundary when there is training to save; whoever has not
left within the pods' grace period is left behind. The end stands in status before any pod goes.
"""

from typing import Any, Final, cast

from rtj_api.reasons import ConditionType, EventReason, Reason
from rtj_operator.policy.conditions import fail, with_condition
from rtj_operator.policy.decision import Action, DeleteJob, DeletePod
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.pending import Signal, clock, judging, lasted, stopped
from rtj_operator.policy.plan import Plan, ended, runs
from rtj_operator.policy.recovery import give_up, renewed
from rtj_operator.policy.times import unix
from rtj_operator.render.pods import DEFAULT_GRACE_SECONDS

# What an incomplete gang lacks: pods, or only somebody who tells of them.
_PODS: Final = "workers"
_VIEW: Final = "view"


def grace(plan: Plan) -> float:
    """Seconds that saving and leaving, and a pod's end, may take."""
    pod = plan.spec.template.get("spec")
    given = cast("dict[str, Any]", pod).get("terminationGracePeriodSeconds") if pod else None
    # Without a profile nothing of the job runs.
    device = plan.seen.profile.device if plan.seen.profile else "cpu"
    return float(given if isinstance(given, int) else DEFAULT_GRACE_SECONDS[device])


def complete(plan: Plan) -> Plan:
    """Complete when the coordinator or the ended pods say so; Failed if a restart is useless."""
    if not plan.live:
        return plan
    view = plan.view
    outcome = view.outcome if view is not None and view.run == plan.status.run else None
    if outcome is not None and outcome.state == "refused":
        return fail(plan, Reason.DO_NOT_RESTART, f"A restart would not help: {outcome.message}")
    if (outcome is None or outcome.state != "succeeded") and not _all_finished(plan):
        return plan
    text = "Every rank reached the end of training."
    plan = with_condition(plan, ConditionType.COMPLETE, "True", Reason.TRAINING_FINISHED, text)
    plan = plan.write(completion_time=plan.now_text, recovery=None)
    return plan.tell("Normal", EventReason.COMPLETED, text)


def _all_finished(plan: Plan) -> bool:
    """As many trained positions as there are say "finished" in their termination logs."""
    messages = (pod.termination for pod in plan.workers().values() if pod.termination)
    positions = {
        m.position
        for m in messages
        if m.outcome == "finished" and m.run == plan.status.run and m.position >= 0
    }
    return len(positions) >= plan.nodes


def leave(plan: Plan) -> Plan:
    """Suspended, or Failed by the active deadline, once the ranks have saved and left."""
    if not plan.stopping:
        end = plan.active_deadline
        return plan.wake_at(end) if end is not None and plan.training else plan
    plan, over = lasted(plan, Signal.SUSPENDING, "job", grace(plan))
    if not over and not _nothing_to_save(plan):
        text = "Ranks are saving and leaving."
        return with_condition(plan, ConditionType.SUSPENDED, "False", Reason.SUSPENDING, text)
    how, in_time = _how_ranks_left(plan), _suspended_in_time(plan)
    # The job may be resumed in this very pass, which must not be taken for one that stops.
    plan = give_up(stopped(plan, Signal.SUSPENDING, "job"))
    if plan.past_active_deadline and not in_time:
        limit = plan.spec.active_deadline_seconds
        text = f"The job ran longer than spec.activeDeadlineSeconds ({limit} s). {how}."
        return fail(plan, Reason.ACTIVE_DEADLINE_EXCEEDED, text)
    text = "spec.suspend is true; set it to false to go on."
    plan = with_condition(plan, ConditionType.SUSPENDED, "True", Reason.SUSPENDED, text)
    return plan.tell("Normal", EventReason.SUSPENDED, f"{how}; pods are deleted")


def _suspended_in_time(plan: Plan) -> bool:
    """Whether the user asked for the suspension before the active deadline: saving takes time."""
    end, since = plan.active_deadline, clock(plan, Signal.SUSPENDING, "job")
    return plan.spec.suspend and since is not None and (end is None or since < end)


def _nothing_to_save(plan: Plan) -> bool:
    """Ranks have left, or never trained, or have nobody who could lead them out."""
    view = plan.view
    if not runs(plan.coordinator):
        return True
    if view is not None and view.run == plan.status.run:
        return _have_left(plan) or (
            plan.live_view is not None and view.ranks_training == 0 and view.step < 0
        )
    return not any(runs(pod) for pod in plan.workers().values())


def _have_left(plan: Plan) -> bool:
    view = plan.view
    if view is None or view.run != plan.status.run:
        return False
    return view.outcome.state in ("saved", "stopped")


def _how_ranks_left(plan: Plan) -> str:
    if _have_left(plan) or not any(runs(pod) for pod in plan.workers().values()):
        return "All ranks left"
    if not runs(plan.coordinator):
        return "The coordinator does not run, so training ends at its last checkpoint"
    if _nothing_to_save(plan):
        return "No rank has trained yet"
    return (
        f"Not all ranks left within {grace(plan):.0f} s (terminationGracePeriodSeconds), so "
        "training may end at its last checkpoint"
    )


def await_gang(plan: Plan) -> Plan:
    """Failed when not all workers were up and heard of within the start deadline.

    When a pod was missing and all are back, a recovery's own deadline counts from then: waiting for
    a machine is not its fault. A job that has trained is never failed for a view that does not
    arrive, nor does one that comes back put anything off.
    """
    if not plan.training:
        return plan
    missed = clock(plan, Signal.GANG_INCOMPLETE, _PODS) is not None
    if _assembled(plan):
        recovery = plan.status.recovery
        return plan.write(recovery=renewed(plan, recovery)) if missed and recovery else plan
    missed = missed or not _all_run(plan) or not runs(plan.coordinator)
    limit = plan.spec.resilience.progress.start_deadline_seconds
    plan, over = lasted(plan, Signal.GANG_INCOMPLETE, _PODS if missed else _VIEW, limit)
    if not over or (plan.live_view is None and _all_run(plan) and _trained(plan)):
        return plan
    available = plan.condition(ConditionType.NODES_AVAILABLE)
    why = f" {available.message}" if available and available.status != "True" else ""
    text = (
        f"Not all of {plan.nodes} workers were running and connected within {limit} s "
        f"(spec.resilience.progress.startDeadlineSeconds).{why}"
    )
    return fail(plan, Reason.START_DEADLINE_EXCEEDED, text)


def _all_run(plan: Plan) -> bool:
    return sum(runs(pod) for pod in plan.workers().values()) >= plan.nodes


def _trained(plan: Plan) -> bool:
    return plan.status.first_step_time is not None


def _assembled(plan: Plan) -> bool:
    if not _all_run(plan):
        return False
    trained = plan.holds(ConditionType.RUNNING) or judging(plan) or plan.steps
    if trained and plan.status.recovery is None:
        return True
    view = plan.live_view
    return view is not None and sum(map(plan.hears, view.workers)) >= plan.nodes


def wind_down(plan: Plan) -> tuple[Action, ...]:
    """What still goes of a job that is suspended or finished.

    A finished job's workers, or a failed one's suspect, are told by the coordinator to end, so that
    their logs stay; it goes when they have. So does a pod that only a sidecar keeps on its node.
    """
    if plan.live or not plan.started:
        return ()
    left = [pod for pod in plan.seen.pods if not _is_worth_reading(plan, pod)]
    waited_for = {pod.uid for pod in left if _may_end_by_itself(plan, pod)}
    if waited_for:
        left = [pod for pod in left if pod.role == "worker" and pod.uid not in waited_for]
    return tuple(
        DeletePod(name=pod.name, uid=pod.uid, force=pod.deleting)
        for pod in left
        if not pod.deleting or (pod.node and pod.node not in plan.seen.nodes)
    )


def _may_end_by_itself(plan: Plan, pod: PodObservation) -> bool:
    end, recovery = plan.status.completion_time, plan.status.recovery
    if not plan.finished or end is None or plan.now >= unix(end) + grace(plan):
        return False
    if pod.role != "worker" or not runs(pod) or plan.node_lost(pod) or not runs(plan.coordinator):
        return False
    if plan.holds(ConditionType.COMPLETE):
        return True
    return recovery is not None and recovery.pod is not None and recovery.pod.uid == pod.uid


def _is_worth_reading(plan: Plan, pod: PodObservation) -> bool:
    """Whether an ended pod's log may interest anybody; a spare's of a finished job does not."""
    spare = pod.termination is not None and pod.termination.position < 0
    return plan.finished and ended(pod) and not (spare and plan.holds(ConditionType.COMPLETE))


def linger(plan: Plan) -> Plan:
    """Looked at again when the grace of the last pods or the time to live is over."""
    end, ttl = plan.status.completion_time, plan.spec.ttl_seconds_after_finished
    if not plan.finished or end is None:
        return plan
    if any(not ended(pod) for pod in plan.seen.pods) and plan.now < unix(end) + grace(plan):
        plan = plan.wake_at(unix(end) + grace(plan))
    if ttl is not None and plan.now < unix(end) + ttl:
        plan = plan.wake_at(unix(end) + ttl)
    return plan


def expire(plan: Plan) -> tuple[Action, ...]:
    """The job itself, when its time to live after the end is over."""
    end, ttl = plan.status.completion_time, plan.spec.ttl_seconds_after_finished
    if not plan.finished or end is None or ttl is None or plan.now < unix(end) + ttl:
        return ()
    return (DeleteJob(uid=plan.seen.job.uid),)
