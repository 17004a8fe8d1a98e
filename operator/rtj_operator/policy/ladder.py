"""How far a recovery reaches: entered by class, climbed when it brings no new step, left by one.

Everything that a rung does is written into status here (the slot's next incarnation, the excluded
node, the run, the in-job restart asked for); effects follow from status, so that a crash between
the two loses nothing and repeats nothing.
"""

from dataclasses import replace
from typing import Final

from rtj_api.ladder import FaultClass, Rung
from rtj_api.messages import JobView
from rtj_api.reasons import EventReason, Reason
from rtj_api.status import LastFault, Recovery
from rtj_operator.policy import attribution, budgets, nodes, recovery, repeats, workers
from rtj_operator.policy.conditions import fail
from rtj_operator.policy.faults import ENTRY, Verdict
from rtj_operator.policy.pending import Signal, noted
from rtj_operator.policy.plan import Plan, changed
from rtj_operator.policy.repeats import Whom
from rtj_operator.policy.times import rfc3339, unix

# Rungs that NVRx takes by itself before the operator hears of the fault.
BY_ITSELF: Final = frozenset({Rung.IN_PROCESS, Rung.IN_JOB})
# Reports of one break come this close together; the second exception of an iteration is no fault.
SAME_BREAK_SECONDS: Final = 1.0


def take(plan: Plan, verdict: Verdict) -> Plan:
    """Absorb one verdict: start a recovery, join the one under way, or start anew after it."""
    if verdict.fatal:
        plan = plan.write(recovery=recovery.reserve(plan, verdict, Rung.FAILED))
        plan = _tell(plan, verdict, Rung.FAILED)
        return fail(plan, Reason.DO_NOT_RESTART, f"A restart would not help: {verdict.reason}")
    if _out_of_memory_again(plan, verdict):
        return _fail_out_of_memory(plan, verdict)
    current = plan.status.recovery
    if current is None or verdict.spare:
        return _begin(plan, verdict, _entry(plan, verdict))
    if _same_break(current, verdict):
        return _join(plan, current, verdict)
    return _again(plan, current, verdict)


def together(plan: Plan, verdict: Verdict) -> bool:
    """Whether a worker was lost, or silent for a while, in the very break being recovered from,
    whatever became of it: what happens after a recovery is of a later round."""
    current = plan.status.recovery
    if current is None or current.fault == 0:
        return False
    if (verdict.run, verdict.round) > (current.run, current.round):
        return False
    silent = verdict.fault_class is current.fault_class is FaultClass.HANG
    return silent or (verdict.lost and current.rung not in BY_ITSELF)


def record(plan: Plan, verdict: Verdict, seconds: float, lost_steps: int | None) -> Plan:
    """Count a fault that is over without acting on it; a node that it accuses stays accused."""
    plan = budgets.count(_tell(plan, verdict, verdict.rung), verdict.rung)
    plan = recovery.remember(plan, verdict, verdict.rung, seconds, lost_steps)
    return attribution.exclude(plan, verdict.node, verdict.reason) if _accuses(verdict) else plan


def climb_overdue(plan: Plan) -> Plan:
    """The next rung, when a recovery's deadline passed without a new step.

    Not while workers are missing (the start deadline rules that wait), and not while training is
    on its way back to where it was, however far behind its last checkpoint lay.
    """
    current = plan.status.recovery
    if current is None or not plan.training:
        return plan
    if noted(plan, Signal.GANG_INCOMPLETE):
        return plan
    due = unix(current.deadline_time)
    if plan.now < due:
        return plan.wake_at(due)
    if _tells_no_steps(plan):
        return recovery.end_unseen(plan, current)
    replayed = _replayed(plan, current)
    if replayed >= 0:
        put_off = changed(recovery.renewed(plan, current), replayed_step=replayed)
        return plan.write(recovery=put_off).wake_at(unix(put_off.deadline_time))
    return _climb(plan, current)


# --- one fault ---


def _begin(plan: Plan, verdict: Verdict, rung: Rung) -> Plan:
    struck_out = False
    if plan.status.recovery is None:
        plan, struck_out = attribution.strike(plan, verdict)
    if struck_out:
        verdict = replace(verdict, rung=Rung.NODE)
        rung = higher(rung, Rung.NODE)
    return _act(plan, verdict, rung)


def _act(plan: Plan, verdict: Verdict, rung: Rung, *, keep: Recovery | None = None) -> Plan:
    """Reserve a rung for a verdict. `keep`: the recovery under way that it belongs to."""
    if _covered(plan, verdict, keep):
        return _share(plan, verdict, keep)
    blameless = verdict.fault_class in attribution.BLAMELESS
    allowed = rung if blameless else _affordable(plan, verdict, rung)
    if verdict.spare and allowed.height > Rung.NODE.height:
        # Training does not need it: not worth a gang, let alone the job.
        return plan.wake_at(budgets.free_at(plan, Rung.POD))
    if allowed is Rung.FAILED:
        plan = plan.write(recovery=recovery.reserve(plan, verdict, Rung.FAILED))
        plan = _tell(plan, verdict, Rung.FAILED)
        text = f"{budgets.exceeded(plan, rung)} Last fault: {verdict.reason}"
        return fail(plan, Reason.RESTART_BUDGET_EXCEEDED, text)
    plan = _tell(plan, verdict, allowed)
    plan = budgets.count(plan, allowed)
    if not blameless:
        plan = budgets.spend(plan, allowed)
    if verdict.spare:
        plan = recovery.remember(plan, verdict, allowed)
    else:
        plan = plan.write(recovery=_merged(keep, recovery.reserve(plan, verdict, allowed)))
    return _carry_out(plan, verdict, allowed)


def _covered(plan: Plan, verdict: Verdict, keep: Recovery | None) -> bool:
    """Whether what one break took besides is paid for already, at a rung that reaches as far.

    Not so a pod that is younger than the break: one that fails again and again must cost.
    """
    current = plan.status.recovery if verdict.spare else keep
    if current is None:
        return verdict.spare and plan.now_text in plan.status.windows.get(verdict.rung, ())
    if _is_younger(verdict, current) or verdict.rung.height > current.rung.height:
        return False
    return not _takes_over(current.fault_class, verdict.fault_class)


def _is_younger(verdict: Verdict, current: Recovery) -> bool:
    """Whether the pod concerned was made since the break: it fails in its turn."""
    return verdict.pod is not None and verdict.pod.created > current.detected_unix


def _takes_over(old: FaultClass, new: FaultClass) -> bool:
    """Whether a fault that counts joins a recovery that does not."""
    return old in attribution.BLAMELESS and new not in attribution.BLAMELESS


def _share(plan: Plan, verdict: Verdict, current: Recovery | None) -> Plan:
    """Replace one more worker in a recovery that is paid for."""
    plan = _tell(plan, verdict, current.rung if current else verdict.rung)
    if current is not None:
        plan = plan.write(recovery=_merged(current, recovery.reserve(plan, verdict, current.rung)))
    return _carry_out(plan, verdict, verdict.rung)


def _carry_out(plan: Plan, verdict: Verdict, rung: Rung) -> Plan:
    # Only the verdict accuses a node; a spent budget that lifts it there says nothing of one.
    if _accuses(verdict):
        plan = attribution.exclude(plan, verdict.node, verdict.reason)
    if verdict.slot is not None and (verdict.lost or rung in (Rung.POD, Rung.NODE)):
        plan = workers.replace(plan, verdict.slot, verdict.reason)
    # An exception alone makes NVRx restart in process.
    if rung is Rung.IN_JOB and (verdict.stalled or verdict.rung is Rung.IN_PROCESS):
        plan = plan.write(restart_requests=plan.status.restart_requests + 1)
    return _new_run(plan, verdict) if rung is Rung.GANG else plan


def _new_run(plan: Plan, verdict: Verdict) -> Plan:
    if plan.status.run == plan.seen.job.status.run:
        # Only once in a pass: nobody could have joined the one before.
        plan = plan.write(run=plan.status.run + 1, round=-1)
        text = f"Run {plan.status.run} starts in place: {verdict.reason}"
        plan = plan.tell("Warning", EventReason.GANG_RESTARTED, text)
    if plan.status.recovery is None:
        return plan
    return plan.write(recovery=changed(plan.status.recovery, run=plan.status.run, round=-1))


def _accuses(verdict: Verdict) -> bool:
    """Whether a verdict holds its worker's node to be at fault."""
    return verdict.rung is Rung.NODE and verdict.fault_class not in attribution.BLAMELESS


def _merged(old: Recovery | None, new: Recovery) -> Recovery:
    if old is None:
        return new
    first = {
        "number": old.number,
        "detected_time": old.detected_time,
        "detected_unix": old.detected_unix,
        "detected_seconds": old.detected_seconds,
        "step": max(old.step, new.step),
    }
    if new.rung.height > old.rung.height or _takes_over(old.fault_class, new.fault_class):
        rung = higher(old.rung, new.rung)
        return changed(new, **first, rung=rung, fault=new.fault or old.fault)
    return changed(old, deadline_time=new.deadline_time, fault=new.fault or old.fault)


def _same_break(current: Recovery, verdict: Verdict) -> bool:
    """Whether a fault is a consequence of, or simultaneous with, the one being recovered from."""
    if verdict.fault_class in attribution.BLAMELESS:
        return True
    if verdict.fault == 0:
        newer = (verdict.incarnation or 0) > (current.incarnation or 0)
        return verdict.slot != current.slot or not newer
    if verdict.fault == current.fault:
        return True
    if _is_younger(verdict, current):
        return False
    if (verdict.run, verdict.round) > (current.run, current.round):
        return False
    in_process = verdict.rung is Rung.IN_PROCESS and current.rung is Rung.IN_PROCESS
    together = verdict.detected_unix - current.detected_unix < SAME_BREAK_SECONDS
    return not in_process or together


def _join(plan: Plan, current: Recovery, verdict: Verdict) -> Plan:
    plan = attribution.withdraw(plan, current, verdict)
    current = plan.status.recovery or current
    if not verdict.lost and verdict.rung.height <= current.rung.height:
        return plan
    if current.rung in BY_ITSELF and current.rung.height < verdict.rung.height:
        plan = budgets.refund(plan, current.rung)
    return _act(plan, verdict, verdict.rung, keep=current)


def _again(plan: Plan, current: Recovery, verdict: Verdict) -> Plan:
    plan = recovery.end_without_step(plan, current)
    if _no_progress(plan):
        plan = plan.write(recovery=recovery.reserve(plan, verdict, Rung.FAILED))
        return _fail_no_progress(_tell(plan, verdict, Rung.FAILED), verdict.reason)
    whom = repeats.whom(plan, current, verdict)
    rung = _following(plan, current, verdict, whom)
    if whom is Whom.NODE and rung is Rung.NODE:
        verdict = replace(verdict, rung=rung)
    plan = _act(plan, verdict, rung)
    return repeats.blame_nobody(plan, current) if whom is Whom.NOBODY else plan


def _following(plan: Plan, current: Recovery, verdict: Verdict, whom: Whom) -> Rung:
    """The rung for a fault that came before any new step: one higher, unless it is another's.

    Gang is taken again and again, up to the limit of restarts without progress. A node is given up
    only for another one, so that a program that is broken ends in its error, not in waiting.
    """
    if whom is Whom.OTHER:
        return verdict.rung
    rung = above(current.rung, verdict.slot if whom is Whom.NODE else None)
    if rung is Rung.FAILED or (rung is Rung.NODE and not nodes.elsewhere(plan)):
        rung = Rung.GANG
    return higher(verdict.rung, rung)


def _entry(plan: Plan, verdict: Verdict) -> Rung:
    """The verdict's rung, or the one to which the last recovery of its class had to climb."""
    last = next(reversed(plan.status.history), None)
    if last is None or last.fault_class != verdict.fault_class or last.detected_time is None:
        return verdict.rung
    ended = unix(last.detected_time) + (last.recovered_seconds or 0.0)
    stable = plan.spec.resilience.progress.stable_period_seconds
    climbed = last.rung.height > ENTRY[last.fault_class].height
    if not climbed or plan.now - ended > stable or last.slot != verdict.slot:
        return verdict.rung
    return higher(verdict.rung, last.rung)


# --- rungs ---


def higher(one: Rung, other: Rung) -> Rung:
    """The one further up."""
    return max(one, other, key=lambda rung: rung.height)


def above(rung: Rung, slot: int | None) -> Rung:
    """The next rung; without a single suspect no pod and no node is replaced."""
    if rung is Rung.FAILED:
        return rung
    following = list(Rung)[rung.height]
    if slot is None and following in (Rung.POD, Rung.NODE):
        return Rung.GANG
    return following


def _affordable(plan: Plan, verdict: Verdict, rung: Rung) -> Rung:
    while rung is not Rung.FAILED and budgets.spent(plan, rung):
        rung = above(rung, verdict.slot)
    return rung


def _climb(plan: Plan, current: Recovery) -> Plan:
    plan = recovery.end_without_step(plan, current)
    seconds = int(plan.now - unix(current.detected_time))
    told = current.reason.removeprefix("no new step ").partition(" after: ")
    first = told[2] or current.reason
    pod = workers.pod(plan, current.slot)
    if pod is None or current.node is None or pod.node != current.node.name:
        # Where the replacement runs, nobody is suspected.
        pod = None
    rung = above(current.rung, current.slot)
    verdict = Verdict(
        fault_class=current.fault_class,
        rung=Rung.GANG if rung is Rung.NODE and pod is None else rung,
        reason=f"no new step {seconds} s after: {first}",
        slot=current.slot,
        incarnation=current.incarnation,
        pod=pod,
        rank=current.rank,
        step=current.step,
        fault=current.fault,
        run=current.run,
        round=plan.view.round if plan.view else current.round,
        stalled=True,
        detected_unix=plan.now,
    )
    if verdict.rung is Rung.FAILED or _no_progress(plan):
        plan = plan.write(recovery=changed(current, rung=Rung.FAILED, number=current.number + 1))
        return _fail_no_progress(plan, verdict.reason)
    return _act(plan, verdict, verdict.rung)


def _tells_no_steps(plan: Plan) -> bool:
    """Whether all ranks live of a script that has never told a step: steps cannot judge it."""
    view = plan.live_view
    if view is None or view.run != plan.status.run or plan.status.first_step_time is not None:
        return False
    return _whole(plan, view)


def _replayed(plan: Plan, current: Recovery) -> int:
    """The step that training has come back to by now, -1 if it is not seen moving."""
    view = plan.live_view
    if view is None or view.run != plan.status.run or view.step <= current.replayed_step:
        return -1
    report = recovery.report_of(plan, current)
    if report is not None and current.rung in BY_ITSELF:
        return view.step if 0 <= report.resumed_step < view.step else -1
    return view.step if _whole(plan, view) else -1


def _whole(plan: Plan, view: JobView) -> bool:
    """Whether all ranks that there should be live in training."""
    return view.ranks_training >= plan.nodes * plan.processes_per_node


# --- words and ends ---


def _tell(plan: Plan, verdict: Verdict, rung: Rung) -> Plan:
    fault = LastFault(
        summary=attribution.summary(verdict),
        fault_class=verdict.fault_class,
        message=verdict.reason,
        time=rfc3339(min(verdict.detected_unix or plan.now, plan.now)),
    )
    text = f"{fault.summary}, recovery at rung {rung}: {verdict.reason}"
    return plan.write(last_fault=fault).tell("Warning", EventReason.FAULT_DETECTED, text)


def _no_progress(plan: Plan) -> bool:
    limit = plan.spec.resilience.progress.max_restarts_without_progress
    return plan.status.restarts_without_progress >= limit


def _fail_no_progress(plan: Plan, reason: str) -> Plan:
    tried = plan.status.restarts_without_progress
    text = (
        f"No new step after {tried} recoveries in a row (highest step "
        f"{plan.status.progress.highest_step}; limit "
        f"spec.resilience.progress.maxRestartsWithoutProgress). Last fault: {reason}"
    )
    return fail(plan, Reason.NO_PROGRESS, text)


def _out_of_memory_again(plan: Plan, verdict: Verdict) -> bool:
    if verdict.fault_class is not FaultClass.OUT_OF_MEMORY or verdict.spare:
        return False
    start = plan.now - plan.spec.resilience.in_job.window_seconds
    earlier = [e for e in plan.status.history if e.detected_time and unix(e.detected_time) >= start]
    current = plan.status.recovery
    seen = [(e.fault_class, e.slot, e.rank) for e in earlier]
    if current is not None and not _same_break(current, verdict):
        seen.append((current.fault_class, current.slot, current.rank))
    return (verdict.fault_class, verdict.slot, verdict.rank) in seen


def _fail_out_of_memory(plan: Plan, verdict: Verdict) -> Plan:
    plan = plan.write(recovery=recovery.reserve(plan, verdict, Rung.FAILED))
    plan = _tell(plan, verdict, Rung.FAILED)
    text = (
        "Out of memory twice at the same place: raise resources.limits.memory of container "
        f"trainer in spec.template, or lower what a rank holds. {verdict.reason}"
    )
    return fail(plan, Reason.OUT_OF_MEMORY, text)
