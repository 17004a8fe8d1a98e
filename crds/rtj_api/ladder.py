"""Rungs and fault classes: the words of the ladder, the same in status, logs, metrics, docs."""

from enum import StrEnum


class Rung(StrEnum):
    """How far a recovery reaches. Order of definition is order of cost."""

    IN_PROCESS = "InProcess"
    IN_JOB = "InJob"
    POD = "Pod"
    NODE = "Node"
    GANG = "Gang"
    FAILED = "Failed"

    @property
    def height(self) -> int:
        """Position on the ladder, 1 (InProcess) to 6 (Failed)."""
        return list(Rung).index(self) + 1


class FaultClass(StrEnum):
    """What happened, judged from the pods' beats, exit status and the cluster."""

    APPLICATION = "Application"
    PROCESS_DIED = "ProcessDied"
    HANG = "Hang"
    OUT_OF_MEMORY = "OutOfMemory"
    POD_DIED = "PodDied"
    DISPLACED = "Displaced"
    NODE_LOST = "NodeLost"
    HARDWARE = "Hardware"
    CONTROL_LOST = "ControlLost"
    SOFTWARE = "Software"
