"""The coordinator's judgement: events in, wishes out. Pure: no socket, no store, no clock.

`settle` brings everything up to date after events; it is level-triggered, so that a lost, repeated
or late event, an action that failed and a restart of the coordinator all end in the same state.
Times are monotonic seconds; `wall_offset` turns them into Unix time for people and history.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from rtj_api import names
from rtj_api.messages import Beat, ExitReport, Hello, JobDirective, Outcome
from rtj_trainer.coordinator import outcome
from rtj_trainer.coordinator.audit import StoreAction
from rtj_trainer.coordinator.control_state import ControlState
from rtj_trainer.coordinator.control_wire import ControlRequest, ControlStatus
from rtj_trainer.coordinator.faults import Ledger
from rtj_trainer.coordinator.gang import CALL_DONE, Gang
from rtj_trainer.coordinator.intent import Intent
from rtj_trainer.coordinator.memory import Memory
from rtj_trainer.coordinator.progress import Place, Progress
from rtj_trainer.coordinator.restarts import RestartWatch
from rtj_trainer.coordinator.signs import Signs
from rtj_trainer.coordinator.starts import StartWatch
from rtj_trainer.coordinator.table import Worker, WorkerTable
from rtj_trainer.nvrx.rendezvous import Rounds

# Added to the ranks' own timeout before a stall of all of them is told: their monitors come first.
STALL_MARGIN_SECONDS: Final = 10.0
# A longer gap between two settlings means that this process stood still (it is settled ten times a
# second): what was said meanwhile is yet to be read, so nobody's silence counts.
_PAUSE_SECONDS: Final = 1.0
# A standby goes through all ranks this often.
_NOTE_SECONDS: Final = 0.5


class Core:
    """State of the job as this coordinator knows it."""

    def __init__(self, job_uid: str, memory: Memory, now: float, wall_offset: float) -> None:
        self.job_uid = job_uid
        self.wall_offset = wall_offset
        self.intent = Intent(memory.directive)
        self.table = WorkerTable()
        self.gang = Gang()
        self.control = ControlState()
        self.progress = Progress(
            highest_step=memory.highest_step,
            checkpoint_step=memory.checkpoint_step,
            moved_at=now,
            stepped_at=memory.stepped_unix - wall_offset if memory.stepped_unix else None,
        )
        self.starts = StartWatch(memory.starts, wall_offset)
        # No round may start: starts failed in a row.
        self.holding = self.starts.holds(now)
        self.restarts = RestartWatch(memory.counts)
        self.ledger = Ledger(memory.incidents, memory.fault_number)
        self.outcome = memory.outcome
        self._signs = Signs(self.gang, self.progress, self.starts, self.ledger, wall_offset)
        self._outcome_run = -1 if memory.directive is None else memory.directive.run
        # Since when the run is told to stop and no rank has lived.
        self._quiet_since = now
        self._settled_at = now
        # When a standby last looked how far the training is.
        self._noted_at = float("-inf")

    # --- events ----------------------------------------------------------------------------------

    def connect(self, hello: Hello, connection: int, now: float) -> None:
        """A worker proved itself."""
        self.table.connect(hello, connection, now)

    def disconnect(self, uid: str, connection: int, now: float) -> None:
        """A worker's connection closed."""
        self.table.disconnect(uid, connection, now)

    def hear(self, uid: str, beat: Beat, now: float) -> None:
        """A worker's beat."""
        worker = self.table.get(uid)
        if worker is None:
            return
        # Where the ranks stood before is what tells the one that stood still.
        places = self.places() if beat.exits else []
        if worker.beat is None:
            self.progress.find(beat.ranks, now)
        reports = self.table.hear(uid, beat, now)
        self.restarts.see_errors(self._places_of(worker), now)
        seat = self.gang.seats.of(uid)
        for report in reports:
            if seat and self._goes_on() and self._is_fault(report):
                self._signs.exited(worker, seat.position, report, places, now)

    def _is_fault(self, report: ExitReport) -> bool:
        """Whether a process ended for a reason of its own: not to leave, and not because a round
        was given up around it."""
        if report.run != self.gang.run or report.exit_code == names.EXIT_SAVED:
            return False
        return report.round > self.gang.given_up and not self.holding

    def direct(self, directive: JobDirective) -> bool:
        """An operator's directive; returns whether it changed the intent."""
        return self.intent.take(directive)

    def tell_control(self, status: ControlStatus, now: float) -> None:
        """The control container's word."""
        self.control.tell(status, now)

    def lose_control(self, now: float) -> None:
        """The control container's socket closed."""
        self.control.lose_link(now)

    def see_rounds(self, run: int, rounds: Rounds, started_at: float) -> None:
        """The store's state, asked at `started_at`."""
        if run == self.gang.run:
            self.control.hear_store(started_at)
            self.gang.take_rounds(rounds, started_at)

    def set_launch(self, run: int, position: int, uid: str, launch: int) -> None:
        """A launch number was taken."""
        if run == self.gang.run:
            self.gang.seats.set_launch(position, uid, launch)

    # --- wishes ----------------------------------------------------------------------------------

    @property
    def control_request(self) -> ControlRequest | None:
        """The run that nvrx-control is to serve; None: nothing is to be started."""
        directive = self.intent.directive
        if directive is None or directive.stop != "none" or directive.run != self.gang.run:
            return None
        if not directive.active:
            return None
        return ControlRequest(
            run=directive.run,
            nodes=directive.nodes,
            rendezvous_id=names.rendezvous_id(self.job_uid, directive.run),
        )

    @property
    def store_actions(self) -> Sequence[StoreAction]:
        """What is to be done at the run's store now."""
        if not self._goes_on() or not self.control.running or self.gang.read_at is None:
            return ()
        return () if self.holding else self.gang.actions()

    def memory(self) -> Memory:
        """What a restarted container must know."""
        stepped = self.progress.stepped_at
        return Memory(
            directive=self.intent.directive,
            counts=self.restarts.counts,
            highest_step=self.progress.highest_step,
            checkpoint_step=self.progress.checkpoint_step,
            stepped_unix=0.0 if stepped is None else round(stepped + self.wall_offset, 3),
            starts=self.starts.kept,
            fault_number=self.ledger.number,
            incidents=tuple(replace(incident) for incident in self.ledger.incidents),
            outcome=self.outcome,
        )

    def places(self) -> list[Place]:
        """Ranks of the position holders' present launches."""
        workers = (self.table.get(seat.uid) for seat in self.gang.seats)
        return [place for worker in workers if worker for place in self._places_of(worker)]

    # --- settling --------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """Bring everything up to date; to be called ten times a second at least."""
        paused, self._settled_at = now - self._settled_at, now
        if paused > _PAUSE_SECONDS:
            self.table.forgive(paused)
            self.control.forgive(paused)
        directive = self.intent.directive
        if directive is None:
            return
        if not directive.active:
            self._stand_by(directive, now)
            return
        if directive.run > self.gang.run:
            self._begin(directive, now)
        self.control.judge(now)
        places = self.places()
        self._survey(places, now)
        self._judge_outcome(directive, now)
        if self._goes_on():
            self._note_faults(directive, places, now)
            self._hold_rounds(now)
            self._keep_positions(directive, now)
        self.ledger.follow(self.gang.run, self.progress, now, self.wall_offset)
        self.table.forget(directive.pods)

    def _stand_by(self, directive: JobDirective, now: float) -> None:
        """Direct nobody, but know how far the training is: for the case of taking over."""
        if now - self._noted_at < _NOTE_SECONDS:
            return
        self._noted_at = now
        self._note_progress(now)
        self.table.forget(directive.pods)

    def _note_progress(self, now: float) -> None:
        beats = (worker.beat for worker in self.table if worker.beat is not None)
        self.progress.note((rank for beat in beats for rank in beat.ranks), now)

    def _begin(self, directive: JobDirective, now: float) -> None:
        if self.gang.run < 0:
            # It stood by until now, or was restarted and has heard nobody yet.
            self._note_progress(now)
        self.gang.begin(directive, self.table)
        self.control.begin(directive.run, now)
        self.restarts.new_run(directive.run)
        self.progress.new_run(now)
        if directive.run != self._outcome_run:
            self.outcome = Outcome()
            self._outcome_run = directive.run
        for worker in self.table:
            worker.failures = 0

    def _goes_on(self) -> bool:
        """Whether the run is to train: neither ended nor told to stop."""
        directive = self.intent.directive
        return (
            directive is not None
            and directive.active
            and directive.stop == "none"
            and directive.run == self.gang.run
            and self.outcome.state == "none"
        )

    def _places_of(self, worker: Worker) -> list[Place]:
        seat = self.gang.seats.of(worker.uid)
        if seat is None or worker.beat is None:
            return []
        if not worker.launched(self.gang.run, seat.position, seat.launch):
            return []
        return [Place(worker, seat.position, rank) for rank in worker.beat.ranks]

    def _survey(self, places: Sequence[Place], now: float) -> None:
        before = self.progress.highest_step
        self.progress.survey(places, self.gang.ranks, now)
        self.restarts.see_round(self.gang.rounds.closed)
        self.restarts.see_ranks(self.progress.round, self.progress.iteration, now)
        if self.progress.highest_step > before:
            for place in places:
                place.worker.failures = 0
        if self.progress.iteration_stepped:
            self.starts.succeed()

    def _judge_outcome(self, directive: JobDirective, now: float) -> None:
        if self.progress.ranks_training or directive.stop == "none":
            self._quiet_since = now
        if self.outcome.state != "none":
            return
        holders = (self.table.get(seat.uid) for seat in self.gang.seats)
        self.outcome = outcome.judge(
            directive.stop,
            self.gang.rounds,
            self.progress,
            [worker.launcher for worker in holders if worker],
            self.gang.ranks,
            now - self._quiet_since,
        )

    def _note_faults(self, directive: JobDirective, places: Sequence[Place], now: float) -> None:
        if self.gang.over(self.table):
            # In the midst of it: the outcome would be known if the ranks had said that they are
            # done. Only a new run goes on from here.
            self.control.end(
                f"every rank ended with 0, but not every one said that it is done: {CALL_DONE}"
            )
        if self.control.dead:
            self._signs.control_lost(self.control.dead, now)
        for restart in self.restarts.ended(now):
            self._signs.restarted(restart, now)
        stalled_seconds = now - self.progress.moved_at
        bound = directive.rank_timeout_seconds + STALL_MARGIN_SECONDS
        # Before the first step of a process its start's own, longer timeout holds.
        if self.progress.complete and self.progress.step >= 0 and stalled_seconds > bound:
            self._signs.stalled(places, now)

    def _hold_rounds(self, now: float) -> None:
        """Keep the workers parked while no round may start; then each gets a new launch.

        A launcher would join the next round by itself, at once.
        """
        held, self.holding = self.holding, self.starts.holds(now)
        if held and not self.holding:
            self.gang.relaunch()

    def _keep_positions(self, directive: JobDirective, now: float) -> None:
        gang = self.gang
        launchers_count = self.control.running and not self.holding
        for loss in gang.lose(directive, self.table, now, launchers_count):
            if loss.kind == "launcher":
                loss.worker.failures += 1
                loss.worker.failed_at = now
            self._signs.lost(loss, now)
        if not self.control.running:
            return
        gang.ask_restart(directive.restart)
        if gang.forming:
            gang.form(directive, self.table, now)
            return
        gang.relaunch_finished(self.table, self.progress)
        for position, worker in gang.fill(directive, self.table, now):
            self.ledger.replaced(position, worker.slot)
