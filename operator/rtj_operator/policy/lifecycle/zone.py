"""The zone that all pods of a job must share: the spec's, or that of the checkpoint volume.

Judged before each start and resume only; a claim that vanishes while training runs is for the
kubelet and the user to notice, no reason to stop.
"""

from typing import Final

from rtj_api.reasons import ConditionType, Reason
from rtj_api.spec import Checkpoints
from rtj_operator.policy.conditions import with_condition
from rtj_operator.policy.plan import Plan

# Claims have no informer: a job that waits for one looks at it this often.
RECHECK_SECONDS: Final = 5.0


def resolve(plan: Plan) -> Plan:
    """The plan with the ZoneResolved condition and, if it is True, the zone."""
    checkpoints, wanted = plan.spec.storage.checkpoints, plan.spec.storage.zone or ""
    if checkpoints is None:
        return _resolved(plan, wanted)
    problem = _claim_problem(plan, checkpoints)
    if problem is not None:
        unread = plan.seen.claim is None
        plan = plan.wake_at(plan.now if unread else plan.now + RECHECK_SECONDS)
        return with_condition(plan, ConditionType.ZONE_RESOLVED, "False", *problem)
    zones = plan.seen.claim.zones if plan.seen.claim else ()
    if wanted and zones and wanted not in zones:
        text = (
            f"spec.storage.zone is {wanted}, but the volume of claim {checkpoints.claim_name} lies "
            f"in {', '.join(zones)}: write one of these, or leave spec.storage.zone out."
        )
        return with_condition(
            plan, ConditionType.ZONE_RESOLVED, "False", Reason.STORAGE_ZONE_MISMATCH, text
        )
    return _resolved(plan, wanted or (zones[0] if len(zones) == 1 else ""))


def resolved(plan: Plan) -> bool:
    """Whether pods may be made, as far as storage and zone go."""
    return plan.holds(ConditionType.ZONE_RESOLVED)


def _claim_problem(plan: Plan, checkpoints: Checkpoints) -> tuple[Reason, str] | None:
    claim, name = plan.seen.claim, checkpoints.claim_name
    if claim is None:
        return Reason.CLAIM_NOT_BOUND, (
            f"PersistentVolumeClaim {name} (spec.storage.checkpoints.claimName) is being read."
        )
    if not claim.exists:
        return Reason.CLAIM_MISSING, (
            f"PersistentVolumeClaim {name} (spec.storage.checkpoints.claimName) does not exist in "
            f"namespace {plan.seen.job.namespace}: create it; the job then starts by itself."
        )
    if not claim.bound and not claim.waits_for_consumer:
        detail = f": {claim.message}" if claim.message else "."
        return Reason.CLAIM_NOT_BOUND, (
            f"PersistentVolumeClaim {name} (spec.storage.checkpoints.claimName) is not bound to a "
            f"volume yet; the job starts when it is{detail}"
        )
    return None


def _resolved(plan: Plan, zone: str) -> Plan:
    reason = Reason.ZONE_RESOLVED if zone else Reason.ZONE_NOT_NEEDED
    text = f"All pods run in zone {zone}." if zone else "No volume binds the job to one zone."
    plan = with_condition(plan, ConditionType.ZONE_RESOLVED, "True", reason, text)
    return plan.write(zone=zone)
