"""What the operator reports, and all that it must remember to act after a crash.

A decision is reserved here before its effect happens; an effect without its reservation does not
happen. Lists and maps are bounded, so that the object stays small for ever.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import ConditionType, Phase
from rtj_api.spec import ApiModel

# Raised when a field changes its meaning; an operator does not touch a status of a higher one.
FORMAT: Final = 1
HISTORY_MAX: Final = 20
PENDING_MAX: Final = 640
EXCLUDED_MAX: Final = 64
STRIKES_MAX: Final = 256

Text = Annotated[str, Field(max_length=4096)]
Name = Annotated[str, Field(max_length=253)]
Uid = Annotated[str, Field(max_length=64)]
# RFC 3339, UTC, whole seconds, as Kubernetes writes times.
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]


class Condition(ApiModel):
    """metav1.Condition."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=64)]
    message: Text = ""
    last_transition_time: Time
    observed_generation: int = 0


class ProgressStatus(ApiModel):
    """How far training is; written at most once a minute and on every phase change."""

    step: int = -1
    highest_step: int = -1
    checkpoint_step: int = -1
    observed_time: Time | None = None


class WorkersStatus(ApiModel):
    """Workers in training, waiting, wanted."""

    desired: int = 0
    ready: int = 0
    spares: int = 0
    summary: Annotated[str, Field(max_length=32)] = ""


class RestartsStatus(ApiModel):
    """Recoveries since the job began, one counter a rung."""

    in_process: int = 0
    in_job: int = 0
    pod: int = 0
    node: int = 0
    gang: int = 0
    summary: Annotated[str, Field(max_length=64)] = "0/0/0/0/0"


class ObjectRef(ApiModel):
    """A pod, by name and UID: names are used again, UIDs are not."""

    name: Name
    uid: Uid


class NodeRef(ObjectRef):
    """A node; its providerID tells a machine that came back under the old name."""

    provider_id: Annotated[str, Field(max_length=512)] = Field(
        default="", validation_alias="providerID", serialization_alias="providerID"
    )


class Recovery(ApiModel):
    """The reservation of the recovery under way."""

    number: int
    rung: Rung
    fault_class: FaultClass = Field(validation_alias="class", serialization_alias="class")
    slot: int | None = None
    incarnation: int | None = None
    pod: ObjectRef | None = None
    node: NodeRef | None = None
    rank: int | None = None
    reason: Text = ""
    detected_time: Time
    # Clock readings (Unix seconds) behind the seconds in history: the last step that the ranks made
    # before the fault (0: none was seen), the detection, the decision, and the first step made
    # afterwards (0: not yet).
    stalled_unix: float = 0.0
    detected_unix: float = 0.0
    decided_unix: float = 0.0
    resumed_unix: float = 0.0
    detected_seconds: float = 0.0
    # Seconds since the decision in which fewer pods ran than train, and since when they do (0: all
    # run).
    waited_seconds: float = 0.0
    waiting_unix: float = 0.0
    deadline_time: Time
    # Highest step when the fault was detected: one beyond it ends the recovery.
    step: int = -1
    # Step at which training stood when the deadline was last put off, since it was on its way
    # back; it must have moved on by the next.
    replayed_step: int = -1
    # FaultReport number of this coordinator incarnation behind it (0: seen by the cluster only),
    # and the run and round it broke: what else breaks in them is its consequence, no new fault.
    fault: int = 0
    run: int = 0
    round: int = -1


class LostTime(ApiModel):
    """The seconds that one fault took from training, by what they were spent on. They add up to
    the time from the last step before the fault to the first step beyond it."""

    # Until the fault was known.
    detect_seconds: float = 0.0
    # Until its recovery was reserved.
    decide_seconds: float = 0.0
    # Fewer pods ran than train: a machine, an image or a pod was missing.
    wait_seconds: float = 0.0
    # Until ranks made steps again.
    restart_seconds: float = 0.0
    # Steps that had been made before.
    replay_seconds: float = 0.0


class HistoryEntry(ApiModel):
    """A recovery that ended."""

    number: int
    rung: Rung
    fault_class: FaultClass = Field(validation_alias="class", serialization_alias="class")
    suspect: Name = ""
    suspect_uid: Annotated[str, Field(max_length=64)] = Field(
        default="", validation_alias="suspectUID", serialization_alias="suspectUID"
    )
    slot: int | None = None
    rank: int | None = None
    reason: Text = ""
    detected_time: Time | None = None
    # From the suspect's last sign of life to the detection.
    detected_seconds: float | None = None
    # From the detection to the first new step; None when a higher rung had to follow.
    recovered_seconds: float | None = None
    lost_steps: int | None = None
    lost: LostTime | None = None


class PendingSignal(ApiModel):
    """A bad sign that has not lasted long enough yet; its clock starts once."""

    signal: Annotated[str, Field(max_length=128)]
    subject: Name
    first_seen_time: Time


class ExcludedNode(NodeRef):
    """A node this job does not use any more."""

    reason: Text = ""
    since: Time
    # What speaks against it while the cluster confirms nothing: a worker on it was silent, or
    # faults came there again and again. Suspicion passes with time.
    suspicion: Literal["", "Silence", "Faults"] = ""
    # The cluster confirmed the fault (node not ready, unknown or deleted).
    confirmed: bool = False
    # Our taint is to be on the node; never without confirmation.
    tainted: bool = False


class NodesStatus(ApiModel):
    """Nodes and the job's opinion of them."""

    excluded: Annotated[tuple[ExcludedNode, ...], Field(max_length=EXCLUDED_MAX)] = ()
    # UID of a node -> times (RFC 3339) of the faults in the window that name it alone as suspect.
    strikes: Annotated[
        dict[Name, Annotated[tuple[Time, ...], Field(max_length=100)]], Field(max_length=1024)
    ] = Field(default_factory=dict[str, tuple[str, ...]])


class LastFault(ApiModel):
    """The newest fault, for the LAST FAULT column."""

    summary: Annotated[str, Field(max_length=128)] = ""
    fault_class: FaultClass | None = Field(
        default=None, validation_alias="class", serialization_alias="class"
    )
    message: Text = ""
    time: Time | None = None


class Goodput(ApiModel):
    """Share of the wall time since the first step in which new steps were made (ETTR)."""

    productive_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    lost: Annotated[dict[Rung, float], Field(max_length=8)] = Field(
        default_factory=dict[Rung, float]
    )
    # The same seconds by what they were spent on.
    parts: LostTime = Field(default_factory=LostTime)
    # Unix seconds up to which `lost` counts: no moment is lost to two recoveries.
    lost_until_unix: float = 0.0
    summary: Annotated[str, Field(max_length=16)] = ""


class CoordinatorStatus(ApiModel):
    """Which coordinator pod counts, and what was absorbed from it."""

    incarnation: int = 0
    # Its pod has been seen: if it is missing now, it is lost and not still to be made.
    seen: bool = False
    # Incarnation of the standby that waits to take over; 0: none is wanted.
    standby_incarnation: int = 0
    standby_seen: bool = False
    # Highest FaultReport number absorbed from this incarnation.
    absorbed_fault: int = 0
    # Counters of this incarnation as last absorbed; the difference is added to `restarts`.
    absorbed_in_process: int = 0
    absorbed_in_job: int = 0


class ResilientTrainingJobStatus(ApiModel):
    """All the operator remembers of a job."""

    format: int = FORMAT
    observed_generation: int = 0
    phase: Phase | None = None
    reason: Annotated[str, Field(max_length=64)] = ""
    message: Text = ""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(),
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    # Run number; a new one is a new rendezvous of every launcher (Gang). 0: not started.
    run: int = 0
    round: int = -1
    # In-job restarts asked of the coordinator (JobDirective.restart).
    restart_requests: int = 0
    # Hash of what the run was made from; another one of the spec means that it was edited since.
    run_spec_hash: Annotated[str, Field(max_length=64)] = ""
    # Leadership (leaseTransitions) under which the clocks in this status run.
    epoch: int = 0
    start_time: Time | None = None
    first_step_time: Time | None = None
    completion_time: Time | None = None
    progress: ProgressStatus = Field(default_factory=ProgressStatus)
    workers: WorkersStatus = Field(default_factory=WorkersStatus)
    coordinator: CoordinatorStatus = Field(default_factory=CoordinatorStatus)
    # Slot -> incarnation, only those above 0.
    incarnations: Annotated[dict[str, int], Field(max_length=4160)] = Field(
        default_factory=dict[str, int]
    )
    # Slots (0 to slots-1) that are provided for, and those of them whose present incarnation has
    # not been seen yet: still to be made; one that is missing otherwise was lost.
    slots: int = 0
    awaited: Annotated[tuple[int, ...], Field(max_length=4160)] = ()
    restarts: RestartsStatus = Field(default_factory=RestartsStatus)
    # Consecutive recoveries that brought no new step.
    restarts_without_progress: int = 0
    recovery: Recovery | None = None
    # Rung -> times (RFC 3339) of its recoveries in the window; at most limit + 1 each.
    windows: Annotated[
        dict[Rung, Annotated[tuple[Time, ...], Field(max_length=1001)]], Field(max_length=8)
    ] = Field(default_factory=dict[Rung, tuple[str, ...]])
    # Times (RFC 3339) of the displacements in their window.
    displacements: Annotated[tuple[Time, ...], Field(max_length=4097)] = ()
    pending: Annotated[tuple[PendingSignal, ...], Field(max_length=PENDING_MAX)] = ()
    history: Annotated[tuple[HistoryEntry, ...], Field(max_length=HISTORY_MAX)] = ()
    nodes: NodesStatus = Field(default_factory=NodesStatus)
    last_fault: LastFault | None = None
    goodput: Goodput | None = None
    zone: Annotated[str, Field(max_length=63)] = ""
