"""What decide() sees: one frozen snapshot of a job and its surroundings.

Made by `work.observe`; judged by everything in `policy`. Times are Unix seconds.
"""

from dataclasses import dataclass, field
from typing import Literal

from rtj_api.messages import JobView, TerminationMessage
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """The job itself, read live or from the cache."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    deleting: bool = False
    # None when the spec cannot be read; then `problem` names the field and what to write.
    spec: ResilientTrainingJobSpec | None
    problem: str = ""
    status: ResilientTrainingJobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileObservation:
    """What the instance type means, already looked up; None in Observation when unknown."""

    name: str
    processes_per_node: int
    device: Literal["cuda", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerObservation:
    """One container's state as the kubelet reports it."""

    name: str
    state: Literal["waiting", "running", "terminated"]
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation:
    """One child pod. Only pods whose controller is this job (by UID) are here."""

    name: str
    uid: str
    role: Literal["worker", "coordinator"]
    slot: int
    incarnation: int
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    deleting: bool = False
    created: float = 0.0
    node: str = ""
    ip: str = ""
    reason: str = ""
    message: str = ""
    # PodScheduled=False: reason and the scheduler's message.
    unschedulable: str = ""
    # Nodes that it was made to keep off.
    excluded_nodes: tuple[str, ...] = ()
    # Reason of a True DisruptionTarget condition (EvictionByEvictionAPI, ...).
    disruption: str = ""
    containers: tuple[ContainerObservation, ...] = ()
    # What the agent left in its termination log; None: not ended, or not readable.
    termination: TerminationMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObservation:
    """A node that a pod of the job is bound to, or that the job excluded."""

    name: str
    uid: str
    provider_id: str = ""
    ready: Literal["True", "False", "Unknown"] = "True"
    ready_reason: str = ""
    # (key, value, effect)
    taints: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimObservation:
    """The checkpoint claim and its volume, read live while a run may start."""

    name: str
    exists: bool
    bound: bool = False
    # Its class binds at the first pod (WaitForFirstConsumer): waiting for it would never end.
    waits_for_consumer: bool = False
    # Zones that the volume's nodeAffinity or zone label (or the class's topology) allow; empty:
    # unknown.
    zones: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The API server's last refusal of a child of this job, kept in memory to be told in a
    condition; dropped after the next success."""

    kind: str
    name: str
    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that decide() may know."""

    now: float
    job: JobObservation
    profile: ProfileObservation | None = None
    pods: tuple[PodObservation, ...] = ()
    nodes: dict[str, NodeObservation] = field(default_factory=dict[str, NodeObservation])
    claim: ClaimObservation | None = None
    # The newest view of the coordinator incarnation that status names; None: none yet.
    view: JobView | None = None
    view_connected: bool = False
    # Seconds since the view socket was last open, 0 while it is.
    view_lost_seconds: float = 0.0
    # The same of the standby coordinator that status names.
    standby_view: JobView | None = None
    standby_connected: bool = False
    # leaseTransitions of this leadership, and how long before it nobody led.
    epoch: int = 0
    unled_seconds: float = 0.0
    # Cluster-wide counts for the circuit breaker: ready and not ready nodes matching the profile.
    matching_nodes: int = 0
    matching_nodes_bad: int = 0
    # Names of children held by somebody else's object, "Kind/name" -> owner text.
    conflicts: dict[str, str] = field(default_factory=dict[str, str])
    # Pod names held by pods that are not this job's and will go (of an earlier job of its name, or
    # being deleted): slot -> the highest such incarnation, the coordinator's likewise (-1: none).
    occupied: dict[int, int] = field(default_factory=dict[int, int])
    coordinator_occupied: int = -1
    # Services, Secret, NetworkPolicy that cannot be read or made right, "Kind/name" -> the API
    # server's words. Told, and no reason to wait with anything.
    child_problems: dict[str, str] = field(default_factory=dict[str, str])
    refusal: Refusal | None = None
