"""Every reason that conditions, phases and Events give, each with when it applies.

The documentation's table is made from this file; nothing else invents a reason.
"""

from enum import StrEnum


class Phase(StrEnum):
    """One word for `kubectl get`, derived from the conditions."""

    PENDING = "Pending"  # accepted; waiting for a claim, a zone, nodes or images
    STARTING = "Starting"  # all pods made; no step of this run yet
    RUNNING = "Running"  # steps advance
    RECOVERING = "Recovering"  # a recovery is under way
    SUSPENDING = "Suspending"  # saving and leaving
    SUSPENDED = "Suspended"  # no pods, may be resumed
    COMPLETE = "Complete"  # training finished
    FAILED = "Failed"  # stopped for good; the reason says why


class ConditionType(StrEnum):
    """Condition types of a job."""

    SUSPENDED = "Suspended"
    ZONE_RESOLVED = "ZoneResolved"
    NODES_AVAILABLE = "NodesAvailable"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    COMPLETE = "Complete"
    FAILED = "Failed"


class Reason(StrEnum):
    """Reasons of conditions and of `status.reason`."""

    # Running / phase
    TRAINING = "Training"  # new steps arrive
    WAITING_FOR_FIRST_STEP = "WaitingForFirstStep"  # pods run, no step yet
    WAITING_FOR_PODS = "WaitingForPods"  # pods are being scheduled or started
    RECOVERING = "Recovering"  # see status.recovery
    SUSPENDED = "Suspended"  # spec.suspend is true
    SUSPENDING = "Suspending"  # ranks are saving and leaving
    RESUMED = "Resumed"  # spec.suspend went back to false
    TRAINING_FINISHED = "TrainingFinished"  # every rank reached the end
    # spec problems
    INVALID_SPEC = "InvalidSpec"  # the message names the field and what to write
    UNKNOWN_INSTANCE_TYPE = "UnknownInstanceType"
    NAME_CONFLICT = "NameConflict"  # an object of a child's name belongs to somebody else
    STATUS_TOO_NEW = "StatusTooNew"  # status.format of a newer operator: hands off
    # storage and zone
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_BOUND = "ClaimNotBound"
    ZONE_RESOLVED = "ZoneResolved"
    ZONE_NOT_NEEDED = "ZoneNotNeeded"  # no volume with a zone
    STORAGE_ZONE_MISMATCH = "StorageZoneMismatch"
    # nodes and pods
    ALL_SCHEDULED = "AllScheduled"
    UNSCHEDULABLE = "Unschedulable"  # the scheduler's message follows
    POD_REFUSED = "PodRefused"  # the API server's message follows
    QUOTA_EXCEEDED = "QuotaExceeded"
    IMAGE_PULL = "ImagePull"  # the kubelet's message follows
    CONTAINER_START = "ContainerStart"  # a container cannot be made or started
    # Degraded
    HEALTHY = "Healthy"
    SPARE_MISSING = "SpareMissing"
    WORKER_MISSING = "WorkerMissing"
    COORDINATOR_MISSING = "CoordinatorMissing"
    # Failed
    RESTART_BUDGET_EXCEEDED = "RestartBudgetExceeded"
    NO_PROGRESS = "NoProgress"
    DO_NOT_RESTART = "DoNotRestart"  # ft_launcher ended with 93
    OUT_OF_MEMORY = "OutOfMemory"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    ACTIVE_DEADLINE_EXCEEDED = "ActiveDeadlineExceeded"


class EventReason(StrEnum):
    """Reasons of Events."""

    STARTED = "Started"  # pods are being made
    FAULT_DETECTED = "FaultDetected"
    RECOVERED = "Recovered"  # a new step after a recovery
    POD_REPLACED = "PodReplaced"
    SPARE_TAKEN = "SpareTaken"
    NODE_EXCLUDED = "NodeExcluded"
    NODE_TAINTED = "NodeTainted"
    NODE_RELEASED = "NodeReleased"
    GANG_RESTARTED = "GangRestarted"
    COORDINATOR_REPLACED = "CoordinatorReplaced"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    COMPLETED = "Completed"
    FAILED = "Failed"
    INVALID = "Invalid"  # the spec cannot be read; the message says what to write
