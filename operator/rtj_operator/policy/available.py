"""Why pods of a job do not run, as API server, scheduler and kubelet word it."""

from typing import Final

from rtj_api.reasons import ConditionType, Reason
from rtj_operator.policy.conditions import with_condition
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan, runs

_PULL: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_START: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "StartError",
        "PreStartHookError",
        "PostStartHookError",
        "CrashLoopBackOff",
    }
)


def nodes_available(plan: Plan) -> Plan:
    """The NodesAvailable condition of a job that is to run."""
    if not plan.training:
        return plan
    running = sum(runs(pod) for pod in plan.workers().values())
    if running >= plan.nodes and runs(plan.coordinator):
        text = f"{plan.nodes} workers and the coordinator run."
        return with_condition(
            plan, ConditionType.NODES_AVAILABLE, "True", Reason.ALL_SCHEDULED, text
        )
    reason, text = hindrance(plan) or (
        Reason.WAITING_FOR_PODS,
        f"Fewer than {plan.nodes} workers and the coordinator run yet.",
    )
    return with_condition(
        plan, ConditionType.NODES_AVAILABLE, "False", reason, _steady(plan, reason, text)
    )


def hindrance(plan: Plan) -> tuple[Reason, str] | None:
    """What keeps a pod of the job from running, if anything says so."""
    for name, owner in sorted(plan.seen.conflicts.items()):
        return Reason.NAME_CONFLICT, (
            f"{name} belongs to {owner}: delete or rename that object, or rename the job."
        )
    refusal = plan.seen.refusal
    if refusal is not None:
        quota = refusal.code == 403 and "exceeded quota" in refusal.message
        text = f"{refusal.kind} {refusal.name} was refused: {refusal.message}"
        return (Reason.QUOTA_EXCEEDED if quota else Reason.POD_REFUSED), text
    wanted = (*plan.workers().values(), plan.coordinator)
    hindered = (_of_pod(pod) for pod in wanted if pod is not None and not runs(pod))
    return next((found for found in hindered if found is not None), None)


def _of_pod(pod: PodObservation) -> tuple[Reason, str] | None:
    if pod.unschedulable:
        return Reason.UNSCHEDULABLE, f"Pod {pod.name}: {pod.unschedulable}"
    for container in pod.containers:
        if container.state != "waiting" or container.reason not in _PULL | _START:
            continue
        reason = Reason.IMAGE_PULL if container.reason in _PULL else Reason.CONTAINER_START
        detail = f"{container.reason}: {container.message}".removesuffix(": ")
        return reason, f"Pod {pod.name}, container {container.name}: {detail}"
    return None


def _steady(plan: Plan, reason: Reason, text: str) -> str:
    """The text that stands already, where kubelet or scheduler only word the same anew: its
    back-off turns to and fro every few seconds, and each turn would be a write."""
    old = plan.condition(ConditionType.NODES_AVAILABLE)
    if old is None or old.reason != reason or reason is not Reason.IMAGE_PULL:
        return text
    same = old.message.partition(":")[0] == text.partition(":")[0]
    return old.message if same else text
