"""Rungs and fault classes: the words of the ladder, the same in status, logs, metrics, docs."""

from enum import StrEnum


class Rung(StrEnum):
    """How far a recovery reaches. Order of definition is order of cost."""

    IN_PROCESS = "InProcess"  # processes live on; NVRx enters the training function again
    IN_JOB = "InJob"  # all training processes restart in their pods, in a new round
    POD = "Pod"  # one worker's pod is replaced
    NODE = "Node"  # the node is excluded; a spare takes the place, a worker is made elsewhere
    GANG = "Gang"  # a new run: every launcher is killed and started again; pods stay
    FAILED = "Failed"  # the job ends and says why

    @property
    def height(self) -> int:
        """Position on the ladder, 1 (InProcess) to 6 (Failed)."""
        return list(Rung).index(self) + 1


class FaultClass(StrEnum):
    """What happened, judged from the pods' beats, exit status and the cluster."""

    APPLICATION = "Application"  # an exception that NVRx's in-process restart answered
    PROCESS_DIED = "ProcessDied"  # a training process ended other than with exit code 0
    START_FAILED = "StartFailed"  # a training process ended before it made a step
    HANG = "Hang"  # no step for too long, or a silent worker that came back
    OUT_OF_MEMORY = "OutOfMemory"  # killed for want of memory; a whole container: from Pod on
    POD_DIED = "PodDied"  # ft_launcher or a container ended, the node is fine
    DISPLACED = "Displaced"  # evicted, preempted, drained; deleted by hand: from Pod on
    ADMISSION_FAILED = "AdmissionFailed"  # the kubelet refused the pod, for want of a device say
    NODE_LOST = "NodeLost"  # node not ready or gone, or a pod out of reach
    HARDWARE = "Hardware"  # reserved: nothing reports it yet
    CONTROL_LOST = "ControlLost"  # the coordinator pod or nvrx-control ended
    SOFTWARE = "Software"  # reserved: nothing reports it yet
