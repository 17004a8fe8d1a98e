"""The coordinator's fault reports, judged with what the cluster knows."""

from typing import Final

from rtj_api.ladder import FaultClass
from rtj_api.messages import FaultReport
from rtj_api.names import EXIT_DO_NOT_RESTART
from rtj_operator.policy.clocks import COORDINATOR, Clock
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.plan import Plan
from rtj_operator.policy.signals.evidence import Finding, finding, gone, unreachable
from rtj_operator.policy.signals.fault import Fault, is_outdated
from rtj_operator.policy.signals.sight import Sight

# Seconds the cluster is given to say how a silent worker was lost: a kubelet that lives reports a
# dead container within about one, a dead node never does.
SETTLE_SECONDS: Final = 2.0


def is_replaced(plan: Plan, report: FaultReport) -> bool:
    """Whether a report is about what was already replaced."""
    return is_outdated(plan, report.kind, report.slot, report.incarnation, report.run)


def became_a_loss(plan: Plan, report: FaultReport) -> bool:
    """Whether a report that was absorbed as something less tells of a loss on which nobody has
    acted: what a pod's end breaks often shows before it."""
    if report.kind not in ("launcher", "worker", "control") or is_replaced(plan, report):
        return False
    return report.recovered_seconds is None and not is_back(plan, report)


def is_back(plan: Plan, report: FaultReport) -> bool:
    """Whether the worker of a report is heard again."""
    view = plan.live_view
    return view is not None and any(
        plan.hears(worker) and worker.slot == report.slot and worker.pod_uid == report.pod_uid
        for worker in view.workers
    )


def judge_report(sight: Sight, report: FaultReport) -> Fault | None:
    """The fault that a report tells of, which is not outdated; None: the cluster has not said
    enough yet."""
    if report.kind == "worker":
        return _judge_lost_worker(sight, report)
    pod = _pod_of(sight.plan, report)
    lost = report.kind == "launcher"
    return _fault(
        sight.plan, report, pod, classify(sight.plan, report), describe(report, pod), lost=lost
    )


def start_judging(sight: Sight, report: FaultReport) -> None:
    """Start the clock of a silent worker whose report waits behind another."""
    if report.kind != "worker" or is_replaced(sight.plan, report) or sight.nobody_heard:
        return
    pod = _pod_of(sight.plan, report)
    if pod is not None and finding(sight.plan, pod) is None:
        sight.note(_clock(report), pod.name)


def judge_without_delay(plan: Plan, report: FaultReport) -> Fault:
    """The fault of a report when the cluster has no more time to say how its worker was lost."""
    pod = _pod_of(plan, report)
    if report.kind != "worker":
        text = describe(report, pod)
        return _fault(plan, report, pod, classify(plan, report), text, lost=False)
    if pod is None:
        return _lost(plan, report, None, gone(_name(report)))
    return _lost(plan, report, pod, finding(plan, pod) or unreachable(pod))


def classify(plan: Plan, report: FaultReport) -> FaultClass:
    """Class of a report, as far as the report alone tells."""
    if report.out_of_memory:
        return FaultClass.OUT_OF_MEMORY
    if report.kind in ("exception", "exit") and (report.before_step or not plan.trained):
        return FaultClass.START_FAILED
    return {
        "exception": FaultClass.APPLICATION,
        "exit": FaultClass.PROCESS_DIED,
        "hang": FaultClass.HANG,
        "launcher": FaultClass.POD_DIED,
        "worker": FaultClass.POD_DIED,
        "control": FaultClass.CONTROL_LOST,
    }[report.kind]


def _judge_lost_worker(sight: Sight, report: FaultReport) -> Fault | None:
    plan = sight.plan
    pod = _pod_of(plan, report)
    if pod is None:
        return _lost(plan, report, None, gone(_name(report)))
    found = finding(plan, pod)
    if found is not None:
        out_of_reach = found.fault_class is FaultClass.NODE_LOST
        if out_of_reach and sight.may_live(pod):
            sight.note(_clock(report), pod.name)
            return None
        return _lost(sight.plan, report, pod, found)
    if is_back(plan, report) and not sight.nobody_heard:
        if not sight.lasted(_clock(report), pod.name, SETTLE_SECONDS):
            return None
        reason = f"pod {pod.name} on node {pod.node} was silent and came back"
        return _fault(sight.plan, report, pod, FaultClass.HANG, reason, lost=False)
    if sight.nobody_heard:
        # The coordinator is the one that is cut off, if the nodes say nothing: see `control`.
        sight.note(Clock.UNHEARD, COORDINATOR)
        return None
    if not sight.lasted(_clock(report), pod.name, SETTLE_SECONDS):
        return None
    if sight.may_live(pod):
        return None
    return _lost(sight.plan, report, pod, unreachable(pod))


def _clock(report: FaultReport) -> Clock:
    return Clock.JUDGING if report.position >= 0 else Clock.JUDGING_SPARE


def _name(report: FaultReport) -> str:
    return f"slot {report.slot}, incarnation {report.incarnation}"


def _lost(plan: Plan, report: FaultReport, pod: PodObservation | None, found: Finding) -> Fault:
    return _fault(
        plan, report, pod, found.fault_class, found.reason, lost=True, off_node=found.off_node
    )


def _fault(
    plan: Plan,
    report: FaultReport,
    pod: PodObservation | None,
    fault_class: FaultClass,
    reason: str,
    *,
    lost: bool,
    off_node: bool = False,
) -> Fault:
    of_worker = report.kind != "control" and report.slot >= 0
    still = max(report.stalled_seconds, report.detected_seconds, 0.0)
    return Fault(
        fault_class=fault_class,
        reason=reason,
        told_by="report",
        kind=report.kind,
        slot=report.slot if of_worker else None,
        incarnation=report.incarnation if of_worker else None,
        pod=pod,
        rank=report.rank if report.rank >= 0 else None,
        lost=lost,
        off_node=off_node,
        spare=lost and report.position < 0,
        stalled=_is_stall(plan, report),
        fatal=report.exit_code == EXIT_DO_NOT_RESTART and report.kind in ("exit", "launcher"),
        step=report.step,
        report=report.number,
        run=report.run,
        round=report.round,
        detected_unix=report.detected_unix,
        detected_seconds=report.detected_seconds,
        stalled_unix=report.detected_unix - still,
    )


def _is_stall(plan: Plan, report: FaultReport) -> bool:
    """A hang that neither a rank monitor nor the in-process wrapper ended before it was told."""
    limit = plan.spec.resilience.heartbeat.rank_timeout_seconds
    ended = report.exit_code is not None
    return report.kind == "hang" and not ended and report.detected_seconds >= limit


def _pod_of(plan: Plan, report: FaultReport) -> PodObservation | None:
    if report.kind == "control":
        return None
    pod = plan.pod_of_slot(report.slot)
    return pod if pod is not None and report.pod_uid in ("", pod.uid) else None


def describe(report: FaultReport, pod: PodObservation | None) -> str:
    """What happened, in words: who, where, code and last lines."""
    text = _what_happened(report, pod)
    message = report.message.strip()
    text = f"{text}: {message}" if message and report.kind != "control" else text
    if report.backoff_seconds > 0:
        text = f"{text} (next start in {report.backoff_seconds:.0f} s)"
    return text


def _what_happened(report: FaultReport, pod: PodObservation | None) -> str:
    if report.kind == "control":
        return f"nvrx-control of run {report.run} ended. {report.message}".strip()
    if report.kind == "hang" and report.slot < 0:
        return f"no rank made a step for {report.detected_seconds:.0f} s"
    who = f"rank {report.rank}" if report.rank >= 0 else "a process"
    where = f"pod {pod.name} on node {pod.node}" if pod else f"slot {report.slot}"
    if report.kind == "launcher":
        return f"ft_launcher in {where} ended with exit code {report.exit_code}"
    if report.out_of_memory:
        return f"{who} in {where} was killed for want of memory (exit code {report.exit_code})"
    if report.kind == "exit":
        early = " before its first step" if report.before_step else ""
        return f"{who} in {where} ended{early} with exit code {report.exit_code}"
    if report.kind == "hang":
        return f"{who} in {where} made no sign of life for {report.detected_seconds:.0f} s"
    return f"{who} in {where} raised an exception"
