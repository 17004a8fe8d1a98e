"""What a user writes. The CRD's schema, its defaults and its documentation come from these models.

Bounds stand on every list, string and number, since the API server prices validation rules by
them. A rule here is never made stricter within one version: a stricter one would later refuse
even `suspend: true` on jobs that exist.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Base of all models: frozen, camelCase on the wire, unknown fields ignored (a newer operator
    may have written them)."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
PositiveSeconds = Annotated[int, Field(ge=1, le=31_536_000)]
DnsLabel = Annotated[str, Field(min_length=1, max_length=63)]
DnsName = Annotated[str, Field(min_length=1, max_length=253)]


class Checkpoints(ApiModel):
    """Where checkpoints live: a claim that all workers mount (FSx for Lustre on EKS)."""

    claim_name: DnsName = Field(description="PersistentVolumeClaim in the job's namespace.")
    mount_path: Annotated[str, Field(min_length=1, max_length=255, pattern="^/.*")] = Field(
        default="/checkpoints", description="Folder at which the trainer container sees it."
    )


class Storage(ApiModel):
    """Volumes of the job and the zone they pin it to."""

    checkpoints: Checkpoints | None = Field(
        default=None, description="Checkpoint volume; without it a restart begins at step 0."
    )
    zone: DnsLabel | None = Field(
        default=None,
        description="topology.kubernetes.io/zone for all pods. Default: the checkpoint volume's.",
    )


class Heartbeat(ApiModel):
    """When silence counts as a fault."""

    interval_seconds: Annotated[int, Field(ge=1, le=60)] = Field(
        default=1, description="Seconds between a worker's beats to the coordinator."
    )
    timeout_seconds: Annotated[int, Field(ge=2, le=600)] = Field(
        default=5, description="Seconds of silence after which a worker is lost."
    )
    rank_timeout_seconds: PositiveSeconds = Field(
        default=600, description="Seconds without a step after which a rank hangs."
    )
    initial_rank_timeout_seconds: PositiveSeconds = Field(
        default=1800,
        description="The same before a process's first step, from rtj_trainer.inprocess.run on.",
    )


class RungLimits(ApiModel):
    """Budget and deadline of one rung."""

    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=10, description="Recoveries of this rung allowed within the window."
    )
    limit_per_100_nodes: Annotated[int, Field(ge=0, le=20)] = Field(
        default=2,
        description="The limit grows to this many for each 100 nodes of the job; 0: it does not.",
    )
    window_seconds: PositiveSeconds = Field(
        default=3600, description="Length of the sliding window."
    )
    deadline_seconds: PositiveSeconds = Field(
        default=300,
        description="Seconds in which a recovery must bring a new step before the next rung.",
    )


class InProcess(RungLimits):
    """Rung 1: NVRx restarts the training function inside living processes."""

    enabled: bool = Field(default=True, description="false: exceptions end the process (rung 2).")
    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=20, description="Recoveries of this rung allowed within the window."
    )


class InJob(RungLimits):
    """Rung 2: all training processes restart in their pods."""

    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=20, description="Recoveries of this rung allowed within the window."
    )


class Node(RungLimits):
    """Rung 4: the node is excluded for the job and a spare or a new worker takes over."""

    strikes: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Soft faults of one node in the window that exclude it."
    )


class Displaced(RungLimits):
    """Evictions, preemptions and deletions, which blame nobody as long as they are rare."""

    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=30,
        description="Displacements within the window; further ones count as faults of the pod.",
    )


class Coordinator(ApiModel):
    """The CPU pod that hears the workers, gives out positions and holds the rendezvous."""

    standby: bool = Field(
        default=True,
        description="Keep a second coordinator on another node, which takes over in seconds.",
    )


class Progress(ApiModel):
    """When restarts stop being worth it."""

    start_deadline_seconds: PositiveSeconds = Field(
        default=3600,
        description="Seconds in which all workers must start, at first and after a replacement.",
    )
    max_restarts_without_progress: Annotated[int, Field(ge=1, le=100)] = Field(
        default=5,
        description="Consecutive recoveries without a new step after which the job fails.",
    )
    stable_period_seconds: PositiveSeconds = Field(
        default=600,
        description="Seconds of progress after which a fault starts at its own entry rung again.",
    )


class Resilience(ApiModel):
    """The ladder's settings. The defaults suit a job of hundreds of GPUs."""

    heartbeat: Heartbeat = Field(default_factory=Heartbeat)
    in_process: InProcess = Field(default_factory=InProcess)
    in_job: InJob = Field(default_factory=InJob)
    pod: RungLimits = Field(default_factory=RungLimits)
    node: Node = Field(default_factory=Node)
    displaced: Displaced = Field(default_factory=Displaced)
    gang: RungLimits = Field(default_factory=RungLimits)
    coordinator: Coordinator = Field(default_factory=Coordinator)
    progress: Progress = Field(default_factory=Progress)


class ResilientTrainingJobSpec(ApiModel):
    """One training job: `nodes` workers of `processesPerNode` ranks each, and `spares` waiting."""

    nodes: Annotated[int, Field(ge=1, le=4096)] = Field(
        description="Workers that train; one worker is one node."
    )
    spares: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="Workers that wait, ready to take over a lost one's place."
    )
    processes_per_node: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="Ranks of one worker. Default: the instance type's GPUs."
    )
    instance_type: DnsLabel = Field(
        description="Machine profile, for example p5.48xlarge, or cpu: GPUs, EFA, huge pages."
    )
    storage: Storage = Field(default_factory=Storage)
    resilience: Resilience = Field(default_factory=Resilience)
    remediation: Literal["enforce", "observe"] = Field(
        default="enforce", description="observe: say what would be done to nodes, and do nothing."
    )
    suspend: bool = Field(
        default=False, description="true: save, leave and release the nodes; false: go on."
    )
    active_deadline_seconds: PositiveSeconds | None = Field(
        default=None, description="Seconds from the start after which the job is stopped and fails."
    )
    ttl_seconds_after_finished: Seconds | None = Field(
        default=None, description="Seconds after the end at which the job is deleted."
    )
    # Full PodTemplateSpec schema in the CRD; read by rendering only.
    template: dict[str, Any] = Field(
        description="Pod of a worker; its container `trainer` runs the training script."
    )
