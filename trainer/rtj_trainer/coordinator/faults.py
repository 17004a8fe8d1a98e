"""The ledger of faults: one report for one thing that happened. Pure.

A fault shows in many places: one killed process ends its launcher's round, breaks the collectives
of every other rank, and so on. Two signs belong to one fault when they are of the same round and
nothing recovered between them; the graver sign then names it. Numbers grow for the life of the
coordinator's pod (they survive a restart of its container, see memory).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from rtj_api.messages import MAX_FAULTS, MAX_TEXT, FaultReport
from rtj_api.names import EXIT_DO_NOT_RESTART
from rtj_trainer.coordinator.progress import Progress

# What names a fault that shows in several ways: the higher one.
_WEIGHT: Final = {"exception": 0, "hang": 1, "exit": 2, "launcher": 3, "worker": 4, "control": 5}
# Signs of one fault in different pods come this close together.
_TOGETHER_SECONDS: Final = 5.0
# A fault seen in a process gets its name this long after; a closed socket comes sooner.
SETTLE_SECONDS: Final = 0.4
# Exit codes that a rank has when it was killed or refuses to go on, and not when it gave up because
# a peer was gone.
_OF_THE_CAUSE: Final = frozenset({-4, -7, -8, -9, -11, EXIT_DO_NOT_RESTART})


class Incident(msgspec.Struct, kw_only=True):
    """A report and what is needed to go on with it."""

    report: FaultReport
    # In-process iteration that it ended.
    iteration: int = 0
    # The processes live on (NVRx's in-process restart), the round goes on.
    in_process: bool = False

    @property
    def recovered(self) -> bool:
        """Whether training is beyond the step at which it stood."""
        return self.report.recovered_seconds is not None


class Ledger:
    """The newest MAX_FAULTS incidents, oldest first."""

    def __init__(self, incidents: Sequence[Incident] = (), number: int = 0) -> None:
        self._incidents = list(incidents)
        self._number = number

    @property
    def incidents(self) -> Sequence[Incident]:
        """Oldest first."""
        return self._incidents

    @property
    def number(self) -> int:
        """The highest number given."""
        return self._number

    def shown(self, now_unix: float) -> tuple[FaultReport, ...]:
        """As the operator is told: in order, each only when its name is settled.

        He takes each number in once, and the loss of a pod often shows in its processes first.
        """
        known: list[FaultReport] = []
        for incident in self._incidents:
            report = incident.report
            young = now_unix - report.detected_unix < SETTLE_SECONDS
            if young and report.kind not in ("worker", "control"):
                break
            known.append(report)
        return tuple(known)

    def note(self, sign: Incident) -> None:
        """Take in a sign of a fault; its number is not read."""
        if self._is_history(sign):
            return
        cause = None if sign.recovered else self._cause(sign)
        if cause is None:
            self._append(sign)
        elif _names_better(sign.report, cause.report):
            self._rename(cause, sign)

    def replaced(self, position: int, slot: int) -> None:
        """A spare took the position."""
        for incident in reversed(self._incidents):
            report = incident.report
            if report.position == position and report.replaced_by_slot < 0:
                if not incident.recovered:
                    incident.report = replace(report, replaced_by_slot=slot)
                return

    def follow(self, run: int, progress: Progress, now: float, wall_offset: float) -> None:
        """Note which faults are over: every rank lives and is beyond the highest step before."""
        if not progress.complete or progress.step < 0:
            return
        for incident in self._incidents:
            if not incident.recovered and _resumed(incident, run, progress):
                incident.report = _followed(incident.report, progress, now, wall_offset)

    def _cause(self, sign: Incident) -> Incident | None:
        for incident in reversed(self._incidents):
            if not incident.recovered and _is_sign_of(sign, incident):
                return incident
        return None

    def _is_history(self, sign: Incident) -> bool:
        """Whether a fault of this or a later round explains it already, and is over."""
        if sign.report.kind not in ("exit", "hang", "exception"):
            return False
        return any(incident.recovered and _explains(incident, sign) for incident in self._incidents)

    def _append(self, sign: Incident) -> None:
        self._number += 1
        report = sign.report
        sign.report = replace(report, number=self._number, message=report.message[-MAX_TEXT:])
        self._incidents.append(sign)
        del self._incidents[:-MAX_FAULTS]

    def _rename(self, cause: Incident, sign: Incident) -> None:
        """The same fault under its better name; what is known of its course stays."""
        old, new = cause.report, sign.report
        cause.report = replace(
            new,
            number=old.number,
            message=new.message[-MAX_TEXT:] or old.message,
            step=old.step,
            detected_unix=old.detected_unix,
            detected_seconds=old.detected_seconds,
            stalled_seconds=old.stalled_seconds,
            backoff_seconds=old.backoff_seconds,
            resumed_step=-1,
            resumed_seconds=None,
            recovered_seconds=None,
            replaced_by_slot=old.replaced_by_slot,
        )
        cause.in_process = sign.in_process


def _when(report: FaultReport) -> tuple[int, int]:
    return report.run, report.round


def _is_sign_of(sign: Incident, incident: Incident) -> bool:
    """Whether a sign belongs to a fault that is not over."""
    new, old = sign.report, incident.report
    if new.run < old.run:
        return True
    together = new.detected_unix - old.detected_unix <= _TOGETHER_SECONDS
    match new.kind:
        case "control":
            return new.run == old.run and old.kind == "launcher" and together
        case "worker":
            # Two pods do not fall silent for one another's sake.
            own = new.pod_uid == old.pod_uid
            return own or (old.kind in ("exception", "hang", "exit", "launcher") and together)
        case "launcher":
            return new.run == old.run and (old.kind == "control" or together)
        case "exception":
            return _explains(incident, sign)
        case _:
            return _when(new) <= _when(old)


def _explains(incident: Incident, sign: Incident) -> bool:
    """Whether processes of the sign's round suffered it because of this incident."""
    new, old = _when(sign.report), _when(incident.report)
    if not incident.in_process:
        return new <= old
    if not sign.in_process:
        return new < old
    return new < old or (new == old and sign.iteration <= incident.iteration)


def _names_better(new: FaultReport, old: FaultReport) -> bool:
    if new.kind != old.kind:
        return _WEIGHT[new.kind] > _WEIGHT[old.kind]
    if new.kind != "exit":
        return False
    together = new.detected_unix - old.detected_unix <= _TOGETHER_SECONDS
    cause = new.exit_code in _OF_THE_CAUSE and old.exit_code not in _OF_THE_CAUSE
    return together and (cause or (new.out_of_memory and not old.out_of_memory))


def _resumed(incident: Incident, run: int, progress: Progress) -> bool:
    old = _when(incident.report)
    now = (run, progress.round)
    if now > old or incident.report.resumed_step >= 0:
        return True
    if incident.report.kind == "hang":
        return not incident.in_process or progress.iteration > incident.iteration
    return incident.in_process and now == old and progress.iteration > incident.iteration


def _followed(
    report: FaultReport, progress: Progress, now: float, wall_offset: float
) -> FaultReport:
    resumed = report.resumed_step
    if resumed < 0:
        resumed = max(0, min(progress.step, report.step))
    report = replace(report, resumed_step=resumed)
    detected = report.detected_unix - wall_offset
    after = 0.0 if progress.stepped_at is None else round(progress.stepped_at - detected, 3)
    if report.resumed_seconds is None and after > 0:
        report = replace(report, resumed_seconds=after)
    if progress.step <= report.step:
        return report
    # The first step that a script names may be beyond all before: nobody saw it being made.
    seconds = after if after > 0 else round(max(0.0, now - detected), 3)
    first = seconds if report.resumed_seconds is None else report.resumed_seconds
    return replace(report, resumed_seconds=first, recovered_seconds=seconds)
