"""What happened: the coordinator's fault reports, judged with what the cluster knows.

A verdict says the class, the rung at which recovery starts and whom it concerns; what is done
about it is the ladder's business.
"""

from dataclasses import dataclass, replace
from typing import Final

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import FaultReport
from rtj_api.names import EXIT_DO_NOT_RESTART
from rtj_operator.policy.evidence import Finding, finding, gone, unreachable
from rtj_operator.policy.observation import PodObservation
from rtj_operator.policy.outage import UNHEARD_SECONDS, held, unheard
from rtj_operator.policy.pending import Signal, lasted, note, settled
from rtj_operator.policy.plan import Plan

# Seconds the cluster is given to say how a silent worker was lost: a kubelet that lives reports a
# dead container within about one, a dead node never does.
SETTLE_SECONDS: Final = 2.0

# Rung at which the recovery from a fault of that class starts.
ENTRY: Final[dict[FaultClass, Rung]] = {
    FaultClass.APPLICATION: Rung.IN_PROCESS,
    FaultClass.PROCESS_DIED: Rung.IN_JOB,
    FaultClass.HANG: Rung.IN_JOB,
    FaultClass.OUT_OF_MEMORY: Rung.IN_JOB,
    FaultClass.POD_DIED: Rung.POD,
    FaultClass.DISPLACED: Rung.NODE,
    FaultClass.NODE_LOST: Rung.NODE,
    FaultClass.HARDWARE: Rung.NODE,
    FaultClass.CONTROL_LOST: Rung.GANG,
    FaultClass.SOFTWARE: Rung.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One fault, judged."""

    fault_class: FaultClass
    rung: Rung
    reason: str
    # The worker concerned; None: none, or no single one.
    slot: int | None = None
    incarnation: int | None = None
    pod: PodObservation | None = None
    rank: int | None = None
    # The pod is dead or out of reach, so its slot needs another one whatever the rung.
    lost: bool = False
    # The worker held no position: training goes on without it.
    spare: bool = False
    # Nobody restarts anything by himself: the ranks live and stand still.
    stalled: bool = False
    # A rank or ft_launcher said that a restart is useless.
    fatal: bool = False
    step: int = -1
    # The coordinator's report behind it, 0 if only the cluster saw it.
    fault: int = 0
    run: int = 0
    round: int = -1
    detected_unix: float = 0.0
    detected_seconds: float = 0.0

    @property
    def node(self) -> str:
        """Node of the worker concerned, "" if unknown."""
        return self.pod.node if self.pod else ""


def classify(report: FaultReport) -> FaultClass:
    """Class of a report, as far as the report alone tells."""
    if report.out_of_memory:
        return FaultClass.OUT_OF_MEMORY
    return {
        "exception": FaultClass.APPLICATION,
        "exit": FaultClass.PROCESS_DIED,
        "hang": FaultClass.HANG,
        "launcher": FaultClass.POD_DIED,
        "worker": FaultClass.POD_DIED,
        "control": FaultClass.CONTROL_LOST,
    }[report.kind]


def stale(plan: Plan, report: FaultReport) -> bool:
    """Whether the report is about what was already replaced: an older incarnation or run, a slot
    that is no more. Pods that we delete ourselves come back as such reports."""
    of_worker = report.kind != "control" and report.slot >= 0
    if of_worker and report.slot not in plan.slots:
        return True
    if of_worker and report.incarnation < plan.incarnation(report.slot):
        return True
    return report.kind != "worker" and report.run < plan.status.run


def grown(plan: Plan, report: FaultReport) -> bool:
    """Whether a report that was absorbed under a lesser name has become a loss that is not
    acted on yet: what a pod's end breaks often shows before it."""
    if report.kind not in ("launcher", "worker", "control") or stale(plan, report):
        return False
    return report.recovered_seconds is None and not _is_back(plan, report)


def judge(plan: Plan, report: FaultReport) -> tuple[Plan, Verdict | None]:
    """The verdict on a report that is not stale; None: the cluster has not said enough yet."""
    if report.kind == "worker":
        return _judge_lost_worker(plan, report)
    pod = _pod_of(plan, report)
    fault_class = classify(report)
    lost = report.kind == "launcher"
    rung = Rung.POD if lost else ENTRY[fault_class]
    verdict = _verdict(report, pod, fault_class, rung, describe(report, pod), lost=lost)
    return plan, replace(verdict, stalled=_is_stall(plan, report))


def _is_stall(plan: Plan, report: FaultReport) -> bool:
    """A hang that neither a rank monitor nor the in-process wrapper ended before it was told."""
    limit = plan.spec.resilience.heartbeat.rank_timeout_seconds
    ended = report.exit_code is not None
    return report.kind == "hang" and not ended and report.detected_seconds >= limit


def _judge_lost_worker(plan: Plan, report: FaultReport) -> tuple[Plan, Verdict | None]:
    pod = _pod_of(plan, report)
    if pod is None:
        name = f"slot {report.slot}, incarnation {report.incarnation}"
        return plan, lost(report, None, gone(name))
    found = finding(plan, pod)
    if found is not None:
        known_dead = found.fault_class is not FaultClass.NODE_LOST
        plan, wait = (plan, False) if known_dead else held(plan, pod)
        return plan, None if wait else lost(report, pod, found)
    nobody = unheard(plan)
    sign, subject = (Signal.UNHEARD, "coordinator") if nobody else (_sign(report), pod.name)
    plan, over = lasted(plan, sign, subject, UNHEARD_SECONDS if nobody else SETTLE_SECONDS)
    if not over:
        return plan, None
    plan = settled(plan, subject)
    if _is_back(plan, report):
        reason = f"pod {pod.name} on node {pod.node} was silent and came back"
        return plan, _verdict(
            report, pod, FaultClass.HANG, ENTRY[FaultClass.HANG], reason, lost=False
        )
    return plan, lost(report, pod, unreachable(pod))


def begin_to_judge(plan: Plan, report: FaultReport) -> Plan:
    """The plan with the clock of a silent worker started, whose report waits behind another."""
    if report.kind != "worker" or stale(plan, report) or unheard(plan):
        return plan
    pod = _pod_of(plan, report)
    if pod is None or finding(plan, pod) is not None:
        return plan
    return note(plan, _sign(report), pod.name)


def _sign(report: FaultReport) -> Signal:
    return Signal.JUDGING if report.position >= 0 else Signal.JUDGING_SPARE


def lost(report: FaultReport, pod: PodObservation | None, found: Finding) -> Verdict:
    """The verdict on a worker that is lost, by how the cluster says it was."""
    return _verdict(report, pod, found.fault_class, found.rung, found.reason, lost=True)


def _verdict(
    report: FaultReport,
    pod: PodObservation | None,
    fault_class: FaultClass,
    rung: Rung,
    reason: str,
    *,
    lost: bool,
) -> Verdict:
    of_worker = report.kind != "control" and report.slot >= 0
    return Verdict(
        fault_class=fault_class,
        rung=rung,
        reason=reason,
        slot=report.slot if of_worker else None,
        incarnation=report.incarnation if of_worker else None,
        pod=pod,
        rank=report.rank if report.rank >= 0 else None,
        lost=lost,
        spare=lost and report.position < 0,
        fatal=report.exit_code == EXIT_DO_NOT_RESTART and report.kind in ("exit", "launcher"),
        step=report.step,
        fault=report.number,
        run=report.run,
        round=report.round,
        detected_unix=report.detected_unix,
        detected_seconds=report.detected_seconds,
    )


def _pod_of(plan: Plan, report: FaultReport) -> PodObservation | None:
    if report.kind == "control":
        return None
    pod = plan.workers().get(report.slot)
    return pod if pod is not None and report.pod_uid in ("", pod.uid) else None


def _is_back(plan: Plan, report: FaultReport) -> bool:
    view = plan.live_view
    return view is not None and any(
        plan.hears(worker) and worker.slot == report.slot and worker.pod_uid == report.pod_uid
        for worker in view.workers
    )


def describe(report: FaultReport, pod: PodObservation | None) -> str:
    """What happened, in words: who, where, code and last lines."""
    if report.kind == "control":
        return f"nvrx-control of run {report.run} ended. {report.message}".strip()
    if report.kind == "hang" and report.slot < 0:
        text = f"no rank made a step for {report.detected_seconds:.0f} s. {report.message}"
        return text.strip()
    who = f"rank {report.rank}" if report.rank >= 0 else "a process"
    where = f"pod {pod.name} on node {pod.node}" if pod else f"slot {report.slot}"
    if report.kind == "launcher":
        text = f"ft_launcher in {where} ended with exit code {report.exit_code}"
    elif report.out_of_memory:
        text = f"{who} in {where} was killed for want of memory (exit code {report.exit_code})"
    elif report.kind == "exit":
        text = f"{who} in {where} ended with exit code {report.exit_code}"
    elif report.kind == "hang":
        text = f"{who} in {where} made no sign of life for {report.detected_seconds:.0f} s"
    else:
        text = f"{who} in {where} raised an exception"
    return f"{text}: {report.message.strip()}" if report.message.strip() else text
