"""The whole intent for a job's pods, made anew from spec, status and live pods in each pass."""

from typing import Literal

from rtj_api.messages import JobDirective
from rtj_api.reasons import ConditionType
from rtj_operator.policy.decision import SendDirective
from rtj_operator.policy.plan import Plan, ended


def directive(plan: Plan) -> tuple[SendDirective, ...]:
    """The directive of a started job; its epoch and number are the sender's to set."""
    if not plan.started:
        return ()
    heartbeat = plan.spec.resilience.heartbeat
    # Ended ones too, until they are replaced: the coordinator reports only losses of its members.
    members = plan.workers()
    old = (pod for pod in plan.superseded() if pod.role == "worker" and not ended(pod))
    return (
        SendDirective(
            directive=JobDirective(
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
            )
        ),
    )


def _stop(plan: Plan) -> Literal["none", "save", "now"]:
    if plan.finished or plan.holds(ConditionType.SUSPENDED):
        return "now"
    return "save" if plan.stopping else "none"
