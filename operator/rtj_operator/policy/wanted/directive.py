"""The whole intent for a job's pods, made anew from spec, status and live pods in each pass."""

from typing import Literal

from msgspec import structs

from rtj_api.messages import JobDirective
from rtj_api.reasons import ConditionType
from rtj_operator.policy.decision import SendDirective
from rtj_operator.policy.plan import Plan, ended, runs


def directives(plan: Plan) -> tuple[SendDirective, ...]:
    """The directives of a started job, to the coordinator that counts and to its standby; epoch and
    number are the sender's to set."""
    if not plan.started:
        return ()
    standby = plan.standby
    host = standby.ip if standby is not None and runs(standby) else ""
    incarnation = standby.incarnation if standby is not None and host else 0
    # Ended ones too, until they are replaced: the coordinator reports only losses of its members.
    members = plan.worker_pods()
    old = (pod for pod in plan.superseded() if pod.role == "worker" and not ended(pod))
    heartbeat = plan.spec.resilience.heartbeat
    active = JobDirective(
        epoch=0,
        number=0,
        run=plan.status.run,
        nodes=plan.nodes,
        processes_per_node=plan.processes_per_node,
        pods={p.uid: p.slot for _, p in sorted(members.items())},
        excluded=tuple(sorted(pod.uid for pod in old)),
        stop=_stop(plan),
        restart=plan.status.restart_requests,
        beat_interval_seconds=float(heartbeat.interval_seconds),
        beat_timeout_seconds=float(heartbeat.timeout_seconds),
        rank_timeout_seconds=float(heartbeat.rank_timeout_seconds),
        initial_rank_timeout_seconds=float(heartbeat.initial_rank_timeout_seconds),
        in_process=plan.spec.resilience.in_process.enabled,
        standby_host=host,
        standby_incarnation=incarnation,
    )
    if not host:
        return (SendDirective(directive=active),)
    waiting = structs.replace(active, active=False, standby_host="", standby_incarnation=0)
    return SendDirective(directive=active), SendDirective(directive=waiting, standby=True)


def _stop(plan: Plan) -> Literal["none", "save", "now"]:
    if plan.finished or plan.holds(ConditionType.SUSPENDED):
        return "now"
    return "save" if plan.stopping else "none"
