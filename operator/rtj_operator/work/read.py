"""From the API's objects to what decide() sees: conversions without I/O."""

import functools
import logging
from typing import Any, Final, Literal

import msgspec
from pydantic import ValidationError

from rtj_api import names
from rtj_api.messages import TerminationMessage, decode_termination
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import FORMAT, ResilientTrainingJobStatus
from rtj_operator.kube.objects import Condition, ContainerStatus, Job, Node, Pod
from rtj_operator.policy.observation import (
    ContainerObservation,
    JobObservation,
    NodeObservation,
    PodObservation,
)

log = logging.getLogger(__name__)

# Problems of a spec told at once; more would not be read.
PROBLEMS_MAX: Final = 3


class UnreadableStatus(Exception):
    """Status cannot be read, and writing over it could repeat or lose a recovery."""


def job_observation(
    job: Job, spec: ResilientTrainingJobSpec | None, problem: str
) -> JobObservation:
    """The job, with its spec as it was read; its status is read here. Raises UnreadableStatus."""
    meta = job.metadata
    return JobObservation(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        resource_version=meta.resource_version,
        deleting=meta.deleting,
        spec=spec,
        problem=problem,
        status=read_status(job.status),
    )


def read_spec(raw: dict[str, Any]) -> tuple[ResilientTrainingJobSpec | None, str]:
    """The spec, or None and what is wrong with which field."""
    try:
        return ResilientTrainingJobSpec.model_validate(raw), ""
    except ValidationError as error:
        lines = [
            f"spec.{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        ]
        more = f"; and {len(lines) - PROBLEMS_MAX} more" if len(lines) > PROBLEMS_MAX else ""
        return None, "; ".join(lines[:PROBLEMS_MAX]) + more


def read_status(raw: dict[str, Any]) -> ResilientTrainingJobStatus:
    """The status. Of a higher format only that number is read: it is a newer operator's."""
    written = raw.get("format", FORMAT)
    if isinstance(written, int) and written > FORMAT:
        return ResilientTrainingJobStatus(format=written)
    try:
        return ResilientTrainingJobStatus.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableStatus(
            f"status.{where}: {first['msg']}; correct it with "
            "`kubectl edit rtj NAME --subresource=status`, or delete and apply the job again"
        ) from error


def pod_observation(pod: Pod) -> PodObservation | None:
    """A child pod; None when its labels do not say which child it is."""
    meta, status = pod.metadata, pod.status
    role = _role(meta.labels.get(names.LABEL_ROLE, ""))
    slot = meta.labels.get(names.LABEL_SLOT, "0" if role == "coordinator" else "")
    incarnation = meta.labels.get(names.LABEL_INCARNATION, "")
    if role is None or not slot.isdecimal() or not incarnation.isdecimal():
        return None
    conditions = {condition.type: condition for condition in status.conditions}
    containers = status.init_container_statuses + status.container_statuses
    return PodObservation(
        name=meta.name,
        uid=meta.uid,
        role=role,
        slot=int(slot),
        incarnation=int(incarnation),
        phase=_phase(status.phase),
        deleting=meta.deleting,
        created=meta.created,
        node=pod.spec.node_name,
        ip=status.pod_ip,
        reason=status.reason,
        message=status.message,
        unschedulable=_unschedulable(conditions.get("PodScheduled")),
        excluded_nodes=tuple(filter(None, meta.annotations.excluded_nodes.split(","))),
        disruption=_disruption(conditions.get("DisruptionTarget")),
        containers=tuple(_container(item) for item in containers),
        termination=_termination(status.container_statuses),
    )


def node_observation(node: Node) -> NodeObservation:
    """A node."""
    meta, spec = node.metadata, node.spec
    return NodeObservation(
        name=meta.name,
        uid=meta.uid,
        provider_id=spec.provider_id,
        ready=_ternary(node.ready.status),
        ready_reason=node.ready.reason,
        taints=tuple((taint.key, taint.value, taint.effect) for taint in spec.taints),
    )


def _container(item: ContainerStatus) -> ContainerObservation:
    state = item.state
    if state.terminated is not None:
        return ContainerObservation(
            name=item.name,
            state="terminated",
            reason=state.terminated.reason,
            message=state.terminated.message,
            exit_code=state.terminated.exit_code,
        )
    if state.running is not None:
        return ContainerObservation(name=item.name, state="running")
    waiting = state.waiting
    return ContainerObservation(
        name=item.name,
        state="waiting",
        reason=waiting.reason if waiting else "",
        message=waiting.message if waiting else "",
    )


def _termination(containers: tuple[ContainerStatus, ...]) -> TerminationMessage | None:
    trainer = next((item for item in containers if item.name == names.CONTAINER_TRAINER), None)
    ended = trainer.state.terminated if trainer else None
    return _decode_termination(ended.message) if ended is not None and ended.message else None


@functools.lru_cache(maxsize=1024)
def _decode_termination(message: str) -> TerminationMessage | None:
    try:
        return decode_termination(message)
    except msgspec.DecodeError as error:
        # Once a message: the cache remembers that it was told.
        log.info("termination message not understood, ignored: %s", error)
        return None


def _role(label: str) -> Literal["worker", "coordinator"] | None:
    match label:
        case "worker" | "coordinator":
            return label
        case _:
            return None


def _phase(
    phase: str,
) -> Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]:
    match phase:
        case "Pending" | "Running" | "Succeeded" | "Failed":
            return phase
        case _:
            return "Unknown"


def _ternary(status: str) -> Literal["True", "False", "Unknown"]:
    match status:
        case "True" | "False":
            return status
        case _:
            return "Unknown"


def _unschedulable(condition: Condition | None) -> str:
    if condition is None or condition.status != "False":
        return ""
    return f"{condition.reason}: {condition.message}"


def _disruption(condition: Condition | None) -> str:
    return condition.reason if condition is not None and condition.status == "True" else ""
