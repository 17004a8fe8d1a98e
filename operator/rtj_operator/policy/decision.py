"""What decide() returns: the next status, then effects in order, then a time to look again.

The status is written first, under the resourceVersion of the observation, and only when it
differs from the observed one. Each action is idempotent: repeated by a new leader it finds its
effect done (object exists with our UID, pod gone, taint present) and does nothing.
"""

from dataclasses import dataclass, field
from typing import Literal

from rtj_api.messages import JobDirective
from rtj_api.reasons import EventReason
from rtj_api.status import ResilientTrainingJobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsureChildren:
    """Create what of Services, Secret and NetworkPolicy is missing; the coordinator Service's
    selector names `coordinator_incarnation`."""

    coordinator_incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """POST one pod. AlreadyExists with our UID is success, with another owner a conflict."""

    role: Literal["worker", "coordinator"]
    slot: int
    incarnation: int
    # A coordinator that waits to take over from the one that counts.
    standby: bool = False
    # Zone label value the pod must land in, "" for any; nodes it must not land on (names).
    zone: str = ""
    excluded_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """DELETE with the UID as precondition. `force`: grace period 0 (node confirmed gone)."""

    name: str
    uid: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendDirective:
    """Send to the connected coordinator, if its content differs from what was sent last on this
    connection and epoch. Given with every decision of a started job; epoch and number are 0 here,
    the sender sets its own leadership's epoch and the next number."""

    directive: JobDirective
    # To the standby coordinator instead of the one that counts.
    standby: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintNode:
    """Add our NoSchedule taint by JSON patch with a test on the node's UID."""

    name: str
    uid: str
    provider_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNode:
    """Remove our taint, likewise."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """An Event on the job, after the status write. Same reason and message aggregate."""

    type: Literal["Normal", "Warning"]
    reason: EventReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """ttlSecondsAfterFinished is over."""

    uid: str


Action = (
    EnsureChildren
    | CreatePod
    | DeletePod
    | SendDirective
    | TaintNode
    | ReleaseNode
    | EmitEvent
    | DeleteJob
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """decide()'s verdict."""

    status: ResilientTrainingJobStatus
    actions: tuple[Action, ...] = ()
    # Look again after this many seconds even if nothing changes; None: only on change.
    wake_after_seconds: float | None = None
    # Metrics to count once when the status write succeeded, e.g. recoveries by rung and class.
    counted: tuple[tuple[str, str], ...] = field(default=())
    # Why the job is left alone, if status cannot hold it; told once by whoever leads.
    complaint: str = ""
