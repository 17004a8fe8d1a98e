"""Turns what is seen of a fault into an incident for the ledger. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec.structs import replace

from rtj_api.messages import MAX_TEXT, ExitReport, FaultReport
from rtj_trainer.coordinator.faults import Incident, Ledger
from rtj_trainer.coordinator.gang import Gang, Loss
from rtj_trainer.coordinator.progress import Place, Progress, odd_one_out
from rtj_trainer.coordinator.restarts import InProcessRestart
from rtj_trainer.coordinator.starts import StartWatch
from rtj_trainer.coordinator.table import Worker

_Fields = dict[str, Any]
Kind = Literal["exception", "exit", "hang", "launcher", "worker", "control"]


class Signs:
    """Monotonic seconds in, Unix seconds out."""

    def __init__(
        self,
        gang: Gang,
        progress: Progress,
        starts: StartWatch,
        ledger: Ledger,
        wall_offset: float,
    ) -> None:
        self._gang = gang
        self._progress = progress
        self._starts = starts
        self._ledger = ledger
        self._wall_offset = wall_offset
        self._control_run = -1
        # (run, highest step) at which a stall was told.
        self._stalled_at = (-1, -1)

    def lost(self, loss: Loss, now: float) -> None:
        """A worker or its launcher was lost; training does not notice the loss of a spare."""
        if loss.kind is not None:
            fault = self._report(loss.kind, now, loss.worker.heard_at, loss.message)
            if loss.position < 0:
                fault = replace(
                    fault,
                    stalled_seconds=0.0,
                    resumed_step=fault.step,
                    resumed_seconds=0.0,
                    recovered_seconds=0.0,
                )
            self._note(
                fault,
                loss.worker,
                position=loss.position,
                exit_code=loss.exit_code,
                out_of_memory=loss.out_of_memory,
            )

    def exited(
        self, worker: Worker, position: int, report: ExitReport, places: Sequence[Place], now: float
    ) -> None:
        """A training process ended by itself, or a rank monitor ended it.

        `places`: all ranks as they stood before.
        """
        start = self._start_failure(report.round, 0, self._round_stepped(report.round), now)
        if report.hang:
            self._hung(report, places, start, now)
            return
        self._note(
            self._report("exit", now, now - _age(worker, report), report.tail),
            worker,
            position=position,
            rank=report.rank,
            round=report.round,
            exit_code=report.exit_code,
            out_of_memory=report.out_of_memory,
            **start,
        )

    def _round_stepped(self, number: int) -> bool:
        return number < self._progress.round or (
            number == self._progress.round and self._progress.round_stepped
        )

    def _start_failure(self, number: int, iteration: int, stepped: bool, now: float) -> _Fields:
        """What a fault says of itself if it came before a step; rounds are held from then on."""
        if stepped:
            return {}
        seconds = self._starts.fail((self._gang.run, number, iteration), now)
        return {"before_step": True, "backoff_seconds": seconds}

    def _hung(
        self, report: ExitReport, places: Sequence[Place], start: _Fields, now: float
    ) -> None:
        """Ranks that wait for one another time out together: who ended first says nothing."""
        suspect = odd_one_out(places)
        fault = self._report("hang", now, self._progress.moved_at, _stall_text(suspect, report))
        self._note(
            fault, **_where(suspect), round=report.round, exit_code=report.exit_code, **start
        )

    def restarted(self, restart: InProcessRestart, now: float) -> None:
        """NVRx restarted the training function in all ranks."""
        place = restart.place
        if place is None:
            text = "NVRx's in-process restart ended a silent training function"
            fault = self._report("hang", now, self._progress.stood_since, text)
        else:
            alive_at = restart.seen_at - place.beat.age_seconds
            fault = self._report("exception", restart.seen_at, alive_at, place.beat.error)
        incident = Incident(report=fault, iteration=restart.iteration, in_process=True)
        progress = self._progress
        start = self._start_failure(progress.round, restart.iteration, progress.stepped_before, now)
        self._note_incident(incident, **_where(place), round=progress.round, **start)

    def stalled(self, places: Sequence[Place], now: float) -> None:
        """No rank made a step for too long, although all of them live; told once a stall."""
        at = (self._gang.run, self._progress.highest_step)
        if at == self._stalled_at:
            return
        self._stalled_at = at
        suspect = odd_one_out(places)
        fault = self._report("hang", now, self._progress.moved_at, _stall_text(suspect, None))
        self._note(fault, **_where(suspect))

    def control_lost(self, message: str, now: float) -> None:
        """nvrx-control of this run is lost; told once a run."""
        if self._control_run != self._gang.run:
            self._control_run = self._gang.run
            self._note(self._report("control", now, now, message))

    def _report(self, kind: Kind, now: float, alive_at: float, message: str) -> FaultReport:
        stepped = self._progress.stepped_at
        return FaultReport(
            number=0,
            kind=kind,
            run=self._gang.run,
            round=max(0, self._gang.rounds.closed),
            message=message[-MAX_TEXT:],
            detected_unix=round(now + self._wall_offset, 3),
            detected_seconds=round(max(0.0, now - alive_at), 3),
            stalled_seconds=-1.0 if stepped is None else round(max(0.0, now - stepped), 3),
            step=self._progress.highest_step,
        )

    def _note(self, report: FaultReport, worker: Worker | None = None, **fields: Any) -> None:
        self._note_incident(Incident(report=report), worker, **fields)

    def _note_incident(
        self, incident: Incident, worker: Worker | None = None, **fields: Any
    ) -> None:
        if worker is not None:
            fields |= {
                "slot": worker.slot,
                "incarnation": worker.incarnation,
                "pod_uid": worker.uid,
            }
        incident.report = replace(incident.report, **fields)
        self._ledger.note(incident)


def _age(worker: Worker, report: ExitReport) -> float:
    """Seconds since the ended process last said anything."""
    ranks = () if worker.beat is None else worker.beat.ranks
    return next((r.age_seconds for r in ranks if r.rank == report.rank), 0.0)


def _where(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {"worker": place.worker, "position": place.position, "rank": place.beat.rank}


def _stall_text(suspect: Place | None, report: ExitReport | None) -> str:
    tail = f"\n{report.tail}" if report is not None and report.tail else ""
    if suspect is None:
        return f"training stood still; no rank stands out{tail}"
    beat = suspect.beat
    return f"training stood still; rank {beat.rank} at step {beat.step} in {beat.phase!r}{tail}"
