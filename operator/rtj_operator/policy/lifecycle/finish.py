"""What goes of a job that is suspended or finished, and when: its pods, then the job itself."""

from rtj_api.reasons import ConditionType
from rtj_operator.policy.decision import Action, DeleteJob, DeletePod
from rtj_operator.policy.lifecycle.suspend import grace
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan, ended, runs
from rtj_operator.policy.times import unix


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


def wake_for_end(plan: Plan) -> Plan:
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
