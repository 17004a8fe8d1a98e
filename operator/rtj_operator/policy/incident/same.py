"""Whether a fault belongs to the incident that is open, or is another one."""

from typing import Final

from rtj_api.ladder import FaultClass, Rung
from rtj_api.status import Recovery
from rtj_operator.policy.signals.fault import Fault

# Reports of one break come this close together; the second exception of an iteration is no fault.
SAME_BREAK_SECONDS: Final = 1.0
# Classes that are nobody's fault: they join whatever is open, and what counts takes over from them.
BLAMELESS: Final = frozenset({FaultClass.DISPLACED, FaultClass.ADMISSION_FAILED})


def same_incident(incident: Recovery, fault: Fault) -> bool:
    """Whether a fault is a consequence of the open incident, or the same break seen elsewhere."""
    if fault.fault_class in BLAMELESS:
        return True
    if fault.told_by == "cluster":
        newer = (fault.incarnation or 0) > (incident.incarnation or 0)
        if fault.slot == incident.slot:
            return not newer
        # A coordinator that is lost again is another loss.
        return fault.slot is not None or not is_younger(incident, fault)
    if fault.report == incident.fault:
        return True
    if is_younger(incident, fault) or is_later_round(incident, fault):
        return False
    in_process = incident.rung is Rung.IN_PROCESS and fault.fault_class is FaultClass.APPLICATION
    if in_process:
        return fault.detected_unix - incident.detected_unix < SAME_BREAK_SECONDS
    return True


def outlives_its_end(incident: Recovery, fault: Fault) -> bool:
    """Whether a report belongs to the open incident even if new steps have come meanwhile: a worker
    was lost, or silent for a while, in the very round that the incident broke."""
    if fault.told_by != "report" or incident.fault == 0 or is_later_round(incident, fault):
        return False
    silent = fault.fault_class is incident.fault_class is FaultClass.HANG
    by_itself = incident.rung in (Rung.IN_PROCESS, Rung.IN_JOB)
    return silent or (fault.lost and not by_itself)


def is_younger(incident: Recovery, fault: Fault) -> bool:
    """Whether the pod concerned was made since the break: it fails in its turn."""
    return fault.pod is not None and fault.pod.created > incident.detected_unix


def is_later_round(incident: Recovery, fault: Fault) -> bool:
    """Whether a fault broke a later round than the incident did."""
    return (fault.run, fault.round) > (incident.run, incident.round)


def takes_over(incident: FaultClass, fault: FaultClass) -> bool:
    """Whether a fault that counts joins an incident that does not."""
    return incident in BLAMELESS and fault not in BLAMELESS
