"""Every reason that conditions, phases and Events give, each with when it applies.

The documentation's table is made from this file; nothing else invents a reason.
"""

from enum import StrEnum


class Phase(StrEnum):
    """One word for `kubectl get`, derived from the conditions."""

    PENDING = "Pending"  # accepted; waiting for a claim, a zone, nodes or images
    STARTING = "Starting"  # the workers run; no step of this run yet
    RUNNING = "Running"  # steps advance
    RECOVERING = "Recovering"  # a recovery is under way
    SUSPENDING = "Suspending"  # saving and leaving
    SUSPENDED = "Suspended"  # no pods, may be resumed
    COMPLETE = "Complete"  # training finished
    FAILED = "Failed"  # stopped for good; the reason says why


class ConditionType(StrEnum):
    """Condition types of a job."""

    SUSPENDED = "Suspended"  # True: no pods, because spec.suspend is true
    ZONE_RESOLVED = "ZoneResolved"  # True: claim and zone are known, pods may be made
    NODES_AVAILABLE = "NodesAvailable"  # True: as many workers as train, and the coordinator, run
    RUNNING = "Running"  # True: new steps arrive and nothing is being recovered from
    DEGRADED = "Degraded"  # True: a worker, a spare or the coordinator does not run
    COMPLETE = "Complete"  # True: training finished
    FAILED = "Failed"  # True: stopped for good


class Reason(StrEnum):
    """Reasons of conditions and of `status.reason`."""

    # course of the job
    TRAINING = "Training"  # new steps arrive
    COORDINATOR_UNHEARD = "CoordinatorUnheard"  # no view arrives: steps are not seen any more
    WAITING_FOR_FIRST_STEP = "WaitingForFirstStep"  # pods run, no step yet
    WAITING_FOR_PODS = "WaitingForPods"  # pods are being scheduled or started
    RECOVERING = "Recovering"  # see status.recovery
    SUSPENDED = "Suspended"  # spec.suspend is true
    SUSPENDING = "Suspending"  # ranks are saving and leaving
    RESUMED = "Resumed"  # spec.suspend went back to false
    SPEC_CHANGED = "SpecChanged"  # the spec was edited: ranks save and leave, a new run follows
    TRAINING_FINISHED = "TrainingFinished"  # every rank reached the end
    # spec problems
    INVALID_SPEC = "InvalidSpec"  # the message names the field and what to write
    UNKNOWN_INSTANCE_TYPE = "UnknownInstanceType"  # spec.instanceType has no profile
    NAME_CONFLICT = "NameConflict"  # an object of a child's name belongs to somebody else
    # storage and zone
    CLAIM_MISSING = "ClaimMissing"  # the checkpoint claim does not exist
    CLAIM_NOT_BOUND = "ClaimNotBound"  # the checkpoint claim has no volume yet
    ZONE_RESOLVED = "ZoneResolved"  # all pods run in the zone that the message names
    ZONE_NOT_NEEDED = "ZoneNotNeeded"  # no volume with a zone
    STORAGE_ZONE_MISMATCH = "StorageZoneMismatch"  # spec.storage.zone is not the volume's zone
    # nodes and pods
    ALL_SCHEDULED = "AllScheduled"  # enough workers and the coordinator run
    UNSCHEDULABLE = "Unschedulable"  # the scheduler's message follows
    POD_REFUSED = "PodRefused"  # the API server's message follows
    QUOTA_EXCEEDED = "QuotaExceeded"  # a ResourceQuota refused a pod; the server's message follows
    IMAGE_PULL = "ImagePull"  # the kubelet's message follows
    CONTAINER_START = "ContainerStart"  # a container cannot be made or started
    # Degraded
    HEALTHY = "Healthy"  # all workers, spares and the coordinator run
    SPARE_MISSING = "SpareMissing"  # training is complete, but a slot has no running pod
    WORKER_MISSING = "WorkerMissing"  # fewer pods run than train
    COORDINATOR_MISSING = "CoordinatorMissing"  # all workers run, the coordinator does not
    NODES_UNREACHABLE = "NodesUnreachable"  # most nodes look bad at once: nothing is given up
    STANDBY_MISSING = "StandbyMissing"  # training is complete, but no standby coordinator runs
    CHILD_UNREADABLE = "ChildUnreadable"  # a Service, Secret or policy cannot be read or written
    # Failed
    RESTART_BUDGET_EXCEEDED = "RestartBudgetExceeded"  # no rung has recoveries left in its window
    NO_PROGRESS = "NoProgress"  # recoveries brought no new step
    DO_NOT_RESTART = "DoNotRestart"  # a rank or ft_launcher ended with exit code 93
    OUT_OF_MEMORY = "OutOfMemory"  # killed for want of memory twice at the same place
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"  # not all workers ran in time
    ACTIVE_DEADLINE_EXCEEDED = "ActiveDeadlineExceeded"  # spec.activeDeadlineSeconds is over


class EventReason(StrEnum):
    """Reasons of Events."""

    STARTED = "Started"  # pods are being made
    FAULT_DETECTED = "FaultDetected"  # a fault, its class, and the rung that answers it
    RECOVERED = "Recovered"  # a new step after a recovery
    POD_REPLACED = "PodReplaced"  # a slot gets a new pod
    NODE_EXCLUDED = "NodeExcluded"  # this job uses the node no more
    NODE_TAINTED = "NodeTainted"  # the cluster calls the excluded node not ready too
    NODE_RELEASED = "NodeReleased"  # an excluded node is well again, or was not at fault
    GANG_RESTARTED = "GangRestarted"  # a new run starts in place
    COORDINATOR_REPLACED = "CoordinatorReplaced"  # the coordinator pod was lost
    SUSPENDED = "Suspended"  # all ranks left, pods are deleted
    RESUMED = "Resumed"  # spec.suspend went back to false, a new run starts
    COMPLETED = "Completed"  # every rank reached the end of training
    FAILED = "Failed"  # the job stopped for good; the message says why
    INVALID = "Invalid"  # the job cannot be used; the message says what to write
