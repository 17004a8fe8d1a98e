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


def show_nodes_available(plan: Plan) -> Plan:
    """The NodesAvailable condition of a job that is to run."""
    if not plan.training:
        return plan
    running = len(plan.running_workers())
    if running >= plan.nodes and runs(plan.coordinator):
        text = f"{plan.nodes} workers and the coordinator run."
        return with_condition(
            plan, ConditionType.NODES_AVAILABLE, "True", Reason.ALL_SCHEDULED, text
        )
    reason, text = hindrance(plan) or (
        Reason.WAITING_FOR_PODS,
        f"Fewer than {plan.nodes} workers and the coordinator run yet.",
    )
    text = steady(plan, ConditionType.NODES_AVAILABLE, reason, text)
    return with_condition(plan, ConditionType.NODES_AVAILABLE, "False", reason, text)


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
    wanted = (*plan.worker_pods().values(), plan.coordinator)
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


def steady(plan: Plan, type_: ConditionType, reason: Reason, text: str) -> str:
    """The words about a pull that a condition holds already, or the new ones: the kubelet's error
    and its back-off take turns every few seconds, and each turn would be a write."""
    old = plan.condition(type_)
    head = text.partition(": ")[0]
    same = old is not None and reason is Reason.IMAGE_PULL and head in old.message
    return old.message[old.message.index(head) :] if old is not None and same else text
