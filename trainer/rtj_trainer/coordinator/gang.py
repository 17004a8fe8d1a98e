"""The gang of one run: forming it, losing members, filling their positions, curing rounds. Pure."""

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rtj_api.messages import JobDirective
from rtj_trainer.coordinator.audit import StoreAction, TakeLaunch, audit
from rtj_trainer.coordinator.progress import Progress
from rtj_trainer.coordinator.seats import PENDING, Seat, Seats, assign, claimed
from rtj_trainer.coordinator.table import Worker, WorkerTable
from rtj_trainer.nvrx.rendezvous import Rounds

CALL_DONE: Final = "the script must call rtj_trainer.done() when it has reached the end of training"


@dataclass(frozen=True, slots=True)
class Loss:
    """A lost worker; no kind: its position was taken away on the operator's word."""

    # -1: it was a spare.
    position: int
    worker: Worker
    kind: Literal["worker", "launcher"] | None
    message: str
    exit_code: int | None = None
    out_of_memory: bool = False


class Gang:
    """Positions and rounds of the present run. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.run = -1
        self.seats = Seats(0)
        self.processes_per_node = 0
        self.rounds = Rounds()
        # When the newest read of the store began; None before the first of this run.
        self.read_at: float | None = None
        # Positions are given one by one only after the first N were given together.
        self.forming = True
        self._formed_from = 0.0
        self._preferred: dict[int, str] = {}
        # Highest round that is ended from here: what its processes still suffer is no fault.
        self.given_up = -1
        # The operator's restart count that is dealt with, and the round that it asked to end.
        self.restart = 0
        self._restart_round: int | None = None

    @property
    def ranks(self) -> int:
        """How many training processes there should be."""
        return len(self.seats) * self.processes_per_node

    def begin(self, directive: JobDirective, table: WorkerTable) -> None:
        """A new run: everybody starts anew, at the old position where possible.

        A standby that takes over has given no position: the workers say which they hold.
        """
        self._preferred = self.seats.holders() or self._preferred or claimed(table)
        self.run = directive.run
        self.seats = Seats(directive.nodes)
        self.processes_per_node = directive.processes_per_node
        self.rounds = Rounds()
        self.read_at = None
        self.forming = True
        self.given_up = -1
        self.restart = directive.restart
        self._restart_round = None

    def take_rounds(self, rounds: Rounds, started_at: float) -> None:
        """What the store said, and when it was asked."""
        if self.read_at is None:
            self._formed_from = started_at
        self.rounds = rounds
        self.read_at = started_at

    def expects(self, directive: JobDirective, worker: Worker) -> bool:
        """Whether a worker may hold a position as far as the operator's word goes."""
        listed = directive.pods.get(worker.uid) == worker.slot
        return listed and worker.uid not in directive.excluded and not worker.terminating

    def candidates(self, directive: JobDirective, table: WorkerTable, now: float) -> list[Worker]:
        """Workers that can be given a position now."""
        held = set(self.seats.holders().values())
        return [
            worker
            for worker in table
            if worker.beat is not None
            and worker.uid not in held
            and worker.alive(now, directive.beat_timeout_seconds)
            and self.expects(directive, worker)
            and worker.rested(now)
        ]

    def form(self, directive: JobDirective, table: WorkerTable, now: float) -> None:
        """Give all positions together, once there are workers for them.

        Where something went on before (the coordinator was restarted), what workers hold is kept,
        and the others have the beat timeout to come back before their position is given away.
        """
        if self.read_at is None:
            return
        alive = [w for w in table if w.alive(now, directive.beat_timeout_seconds)]
        self.seats.adopt((w for w in alive if self.expects(directive, w)), self.run)
        candidates = self.candidates(directive, table, now)
        vacant = len(self.seats.vacant)
        went_on = self.rounds.newest > 0 or bool(self.rounds.participants) or bool(list(self.seats))
        if went_on:
            late = now - self._formed_from > directive.beat_timeout_seconds
            self.forming = vacant > 0 and not late
        elif len(candidates) >= vacant:
            # One that has just fallen silent, as on the node of a lost coordinator, would only be
            # waited for in vain.
            heard = [w for w in candidates if w.beats(now, directive.beat_interval_seconds)]
            chosen = heard if len(heard) >= vacant else candidates
            assign(self.seats, chosen, self._preferred)
            self.forming = False

    def fill(
        self, directive: JobDirective, table: WorkerTable, now: float
    ) -> list[tuple[int, Worker]]:
        """Give vacant positions to spares; returns who got which."""
        vacant = self.seats.vacant
        candidates = self.candidates(directive, table, now) if vacant else []
        assign(self.seats, candidates, {})
        by_uid = {worker.uid: worker for worker in candidates}
        given = ((position, self.seats.at(position)) for position in vacant)
        return [(position, by_uid[seat.uid]) for position, seat in given if seat is not None]

    def lose(
        self, directive: JobDirective, table: WorkerTable, now: float, launchers_count: bool
    ) -> list[Loss]:
        """Take positions from holders that are lost, and say why; lost spares are told too.

        `launchers_count`: one that ended did not have to.
        """
        losses: list[Loss] = []
        for seat in list(self.seats):
            worker = table.get(seat.uid)
            loss = self._loss(seat, worker, directive, now, launchers_count) if worker else None
            if loss is not None:
                self.seats.vacate(seat.position)
                self.given_up = self.rounds.closed
                losses.append(loss)
        return [*losses, *self._lost_spares(directive, table, now)]

    def _lost_spares(
        self, directive: JobDirective, table: WorkerTable, now: float
    ) -> Iterator[Loss]:
        for worker in table:
            if worker.lost or worker.beat is None:
                continue
            if worker.alive(now, directive.beat_timeout_seconds):
                continue
            worker.lost = True
            if self.expects(directive, worker):
                yield Loss(-1, worker, "worker", _silence(worker, now))

    def _loss(
        self, seat: Seat, worker: Worker, directive: JobDirective, now: float, launchers_count: bool
    ) -> Loss | None:
        position = seat.position
        if directive.pods.get(worker.uid) != worker.slot or worker.uid in directive.excluded:
            return Loss(position, worker, None, "no longer wanted by the operator")
        if not worker.alive(now, directive.beat_timeout_seconds):
            worker.lost = True
            return Loss(position, worker, "worker", _silence(worker, now))
        if worker.terminating:
            text = f"pod {worker.name} is being stopped (SIGTERM)"
            return Loss(position, worker, "worker", text)
        if launchers_count and self._launcher_ended(seat, worker):
            end = worker.launcher
            text = _launcher_end(worker)
            return Loss(position, worker, "launcher", text, end.exit_code, end.out_of_memory)
        return None

    def _launcher_ended(self, seat: Seat, worker: Worker) -> bool:
        """Whether its launcher ended and the store, asked since, does not say that it had to."""
        ended = worker.launcher.state in ("exited", "killed")
        if not ended or not worker.launched(self.run, seat.position, seat.launch):
            return False
        if self.rounds.finished and worker.launcher.exit_code == 0:
            return False
        return self.read_at is not None and self.read_at > worker.launcher_at

    def over(self, table: WorkerTable) -> bool:
        """Whether every launcher saw its ranks exit with 0 and left: NVRx has ended this run."""
        workers = [(seat, table.get(seat.uid)) for seat in self.seats]
        return self.rounds.finished and all(
            worker is not None
            and worker.launched(self.run, seat.position, seat.launch)
            and (worker.launcher.state, worker.launcher.exit_code) == ("exited", 0)
            for seat, worker in workers
        )

    def relaunch_finished(self, table: WorkerTable, progress: Progress) -> None:
        """Give those a new launch that have finished while others start anew.

        Their launcher waits in NVRx's exit barrier, blind to the open round, and would end the
        running job when it leaves it.
        """
        if not self.rounds.open:
            return
        joined = {(p.position, p.launch) for p in self.rounds.participants}
        done = Counter(position for position, _ in progress.done)
        for seat in list(self.seats):
            worker = table.get(seat.uid)
            finished = done[seat.position] >= self.processes_per_node
            if (
                finished
                and seat.launch != PENDING
                and worker
                and (seat.position, seat.launch) not in joined
            ):
                self.seats.give(seat.position, seat.uid)
                progress.forget(seat.position)

    def ask_restart(self, restart: int) -> None:
        """The operator's count of in-job restarts it asked for."""
        if restart > self.restart:
            self.restart = restart
            self._restart_round = self.rounds.closed
            self.given_up = max(self.given_up, self.rounds.closed)

    def relaunch(self) -> None:
        """Give every holder of a position a new launch."""
        for seat in list(self.seats):
            if seat.launch != PENDING:
                self.seats.give(seat.position, seat.uid)

    def actions(self) -> Sequence[StoreAction]:
        """What is to be done at the store now."""
        wanted = [
            TakeLaunch(self.run, seat.position, seat.uid)
            for seat in self.seats
            if seat.launch == PENDING
        ]
        if self.forming or self.rounds.finished:
            return wanted
        restart = self._restart_round is not None and self.rounds.newest <= self._restart_round
        cures = audit(self.run, len(self.seats), self.rounds, self.seats.launches, restart)
        return [*wanted, *cures]


def _silence(worker: Worker, now: float) -> str:
    if not worker.connection:
        return f"connection of pod {worker.name} closed"
    return f"pod {worker.name} was silent for {now - worker.heard_at:.1f} s"


def _launcher_end(worker: Worker) -> str:
    state = worker.launcher
    if state.state == "exited" and state.exit_code == 0:
        return (
            f"ft_launcher of {worker.name} ended with 0, "
            f"but not every rank said that it is done: {CALL_DONE}"
        )
    if state.out_of_memory:
        return (
            f"the kernel killed ft_launcher of {worker.name}: its container's memory is used up; "
            "raise the memory limit of container trainer in spec.template"
        )
    if state.exit_code == -signal.SIGKILL:
        return f"something killed ft_launcher of {worker.name} (SIGKILL)"
    return state.tail or f"ft_launcher of {worker.name} ended by itself ({state.state})"
