"""Jobs that cannot be read or must not be touched: told in a condition, and nothing else done."""

from rtj_api.names import NAME_MAX_LENGTH
from rtj_api.reasons import ConditionType, EventReason, Phase, Reason
from rtj_api.status import FORMAT, Condition, ResilientTrainingJobStatus
from rtj_operator.policy.decision import Decision, EmitEvent
from rtj_operator.policy.observation import Observation
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.times import rfc3339


def accept(seen: Observation) -> Plan | Decision:
    """The plan of a job that can be read, or the decision to leave it alone."""
    job, status = seen.job, seen.job.status
    if job.deleting:
        return Decision(status=status)
    if status.format > FORMAT:
        # Not even a condition: writing would drop the fields that this version does not know.
        text = (
            f"status.format is {status.format}, this operator knows {FORMAT}: it leaves the job "
            "alone; upgrade the operator."
        )
        return Decision(status=status, complaint=text)
    problem = _problem(seen)
    if problem is not None:
        return _refuse(seen, *problem)
    assert job.spec is not None
    assert seen.profile is not None
    return Plan(
        seen=seen,
        spec=job.spec,
        processes_per_node=job.spec.processes_per_node or seen.profile.processes_per_node,
        status=_accepted(status),
    )


def _problem(seen: Observation) -> tuple[Reason, str] | None:
    job = seen.job
    if job.spec is None:
        return Reason.INVALID_SPEC, job.problem or "The spec cannot be read."
    if len(job.name) > NAME_MAX_LENGTH:
        return Reason.INVALID_SPEC, (
            f"metadata.name has {len(job.name)} characters; pods' host names leave room for "
            f"{NAME_MAX_LENGTH}: create the job under a shorter name."
        )
    if seen.profile is None:
        text = seen.profile_problem or f"spec.instanceType {job.spec.instance_type} has no profile."
        return Reason.UNKNOWN_INSTANCE_TYPE, text
    return (Reason.INVALID_SPEC, job.problem) if job.problem else None


def _refuse(seen: Observation, reason: Reason, message: str) -> Decision:
    """Pods of a job that ran stay as they are: an unreadable spec is no reason to stop them."""
    status = seen.job.status
    type_ = ConditionType.DEGRADED if status.run else ConditionType.RUNNING
    flag = "True" if status.run else "False"
    old = next((c for c in status.conditions if c.type == type_), None)
    condition = Condition(
        type=type_,
        status=flag,
        reason=reason,
        message=message[:4096],
        last_transition_time=(
            old.last_transition_time if old and old.status == flag else rfc3339(seen.now)
        ),
        observed_generation=seen.job.generation,
    )
    others = tuple(c for c in status.conditions if c.type != type_)
    after = changed(
        status,
        phase=status.phase if status.run else Phase.PENDING,
        reason=reason,
        message=message[:4096],
        conditions=(*others, condition),
        observed_generation=seen.job.generation,
    )
    if after == status:
        return Decision(status=status)
    event = EmitEvent(type="Warning", reason=EventReason.INVALID, message=message[:1024])
    return Decision(status=after, actions=(event,))


def _accepted(status: ResilientTrainingJobStatus) -> ResilientTrainingJobStatus:
    """Without the condition of an earlier refusal, which nothing else would take back."""
    refusals = (Reason.INVALID_SPEC, Reason.UNKNOWN_INSTANCE_TYPE)
    kept = tuple(c for c in status.conditions if c.reason not in refusals)
    return changed(status, conditions=kept)
