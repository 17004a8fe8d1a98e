"""The coordinator and its ranks in the small world of the simulations.

Seats, rounds, reports and steps follow the real coordinator where decisions depend on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace as with_fields

from rtj_api.messages import FaultReport, JobDirective, JobView, Outcome, WorkerView

RESTART_SECONDS = 2.0
SAVE_SECONDS = 3.0


@dataclass
class Pod:
    """A pod as the API server and, if its node lives, the kubelet have it."""

    name: str
    uid: str
    role: Literal["worker", "coordinator"]
    slot: int
    incarnation: int
    since: float
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    deleting: bool = False
    node: str = ""
    excluded_nodes: tuple[str, ...] = ()


@dataclass
class Program:
    """What is trained; outlives every pod."""

    # Steps after which training is finished.
    steps: int
    checkpoint: int = 0
    # It fails before its next step, whatever is restarted.
    broken: bool = False
    # The only position of which it does so; None: any.
    broken_at: int | None = None
    # Ranks live but make no step until they are restarted.
    stuck: bool = False
    # Nodes on which each process fails before its next step.
    bad_nodes: set[str] = field(default_factory=set[str])

    def fails(self, position: int, node: str) -> bool:
        """Whether a process fails before its next step."""
        broken = self.broken and self.broken_at in (None, position)
        return broken or node in self.bad_nodes


@dataclass
class Coordinator:
    """What a coordinator pod knows; gone with it."""

    incarnation: int
    directive: JobDirective | None = None
    run: int = 0
    round: int = -1
    control: bool = True
    seats: dict[int, str] = field(default_factory=dict[int, str])
    met: dict[str, Pod] = field(default_factory=dict[str, Pod])
    lost: set[str] = field(default_factory=set[str])
    # Those whose launcher ended: given no position any more.
    spent: set[str] = field(default_factory=set[str])
    faults: list[FaultReport] = field(default_factory=list[FaultReport])
    # Reports ever made; the list keeps the newest 64.
    number: int = 0
    step: float = -1.0
    highest: int = -1
    ready_at: float = 0.0
    restart: int = 0
    finished: bool = False
    # Since when ranks save and leave, from which nobody calls them back.
    leaving: float | None = None
    saved: bool = False
    now: float = 0.0

    def advance(
        self, now: float, passed: float, living: Mapping[str, Pod], program: Program
    ) -> None:
        """Let the coordinator and the ranks go on; `living`: pods by UID that run."""
        self.now, directive = now, self.directive
        if directive is None or self.finished:
            return
        if directive.stop != "none" or self.leaving is not None:
            self.leaving = now if self.leaving is None else self.leaving
            self.saved = directive.stop == "now" or now - self.leaving >= SAVE_SECONDS
            return
        if directive.run > self.run:
            self.run, self.round, self.seats, self.control = directive.run, 0, {}, True
            self.step, self.ready_at = -1.0, self.now + RESTART_SECONDS
            program.stuck = False
        members = self._members(directive, living)
        vacated = self._lose(directive, members)
        filled = self._fill(directive, members)
        if vacated or filled or directive.restart > self.restart:
            self.restart = directive.restart
            self.new_round(program)
        self._train(directive, passed, program)

    def _members(self, directive: JobDirective, living: Mapping[str, Pod]) -> dict[str, Pod]:
        members = {
            uid: pod
            for uid, pod in living.items()
            if uid in directive.pods and uid not in directive.excluded
        }
        self.met |= members
        return members

    def _lose(self, directive: JobDirective, members: dict[str, Pod]) -> bool:
        vacated = False
        self.lost -= members.keys()
        for uid, pod in self.met.items():
            if uid in members or uid in self.lost:
                continue
            self.lost.add(uid)
            position = next((p for p, holder in self.seats.items() if holder == uid), -1)
            if position >= 0:
                del self.seats[position]
                vacated = True
            if uid in directive.pods and uid not in directive.excluded:
                self.report("worker", pod, position)
        return vacated

    def _fill(self, directive: JobDirective, members: dict[str, Pod]) -> bool:
        taken = {*self.seats.values(), *self.spent}
        free = sorted(set(members) - taken, key=lambda uid: members[uid].slot)
        vacant = [p for p in range(directive.nodes) if p not in self.seats]
        for position, uid in zip(vacant, free, strict=False):
            self.seats[position] = uid
        return bool(vacant and free)

    def new_round(self, program: Program) -> None:
        """All training processes start anew."""
        self.round += 1
        self.step, self.ready_at = -1.0, self.now + RESTART_SECONDS
        program.stuck = False

    def _train(self, directive: JobDirective, passed: float, program: Program) -> None:
        whole = len(self.seats) == directive.nodes and self.control
        if not whole or self.now < self.ready_at or program.stuck:
            return
        failing = [
            position
            for position, uid in sorted(self.seats.items())
            if program.fails(position, self.met[uid].node)
        ]
        if failing:
            # Who fails first changes: it is a race.
            first = failing[self.number % len(failing)]
            self.report("exit", self.met[self.seats[first]], first)
            self.new_round(program)
            return
        if self.step < 0:
            self.step = float(program.checkpoint)
            self.faults = [_resumed(f, program.checkpoint) for f in self.faults]
            return
        self.step += passed
        self.highest = max(self.highest, int(self.step))
        program.checkpoint = max(program.checkpoint, int(self.step) // 20 * 20)
        self.faults = [_recovered(f, self.highest, self.now) for f in self.faults]
        self.finished = self.step >= program.steps

    def report(self, kind: str, pod: Pod | None, position: int) -> None:
        """One more fault that the coordinator tells of."""
        self.number += 1
        spare = kind == "worker" and position < 0
        fault = FaultReport(
            number=self.number,
            kind=kind,  # pyright: ignore[reportArgumentType]
            run=self.run,
            round=self.round,
            slot=pod.slot if pod else -1,
            incarnation=pod.incarnation if pod else -1,
            pod_uid=pod.uid if pod else "",
            position=position,
            rank=position * 2 if position >= 0 else -1,
            exit_code=1 if kind == "exit" else None,
            step=self.highest,
            detected_unix=self.now,
            detected_seconds=0.5,
            recovered_seconds=0.0 if spare else None,
        )
        self.faults = [*self.faults, fault][-64:]

    def view(self) -> JobView:
        """What it tells the operator now."""
        place = {uid: position for position, uid in self.seats.items()}
        workers = tuple(
            WorkerView(
                slot=pod.slot,
                incarnation=pod.incarnation,
                pod_uid=uid,
                connected=uid not in self.lost,
                position=place.get(uid, -1),
            )
            for uid, pod in self.met.items()
        )
        return JobView(
            coordinator_incarnation=self.incarnation,
            run=self.run,
            round=self.round,
            control="running" if self.control else "dead",
            workers=workers,
            step=int(self.step),
            highest_step=self.highest,
            ranks_training=len(self.seats) * 2 if self.step >= 0 else 0,
            faults=tuple(self.faults),
            outcome=self._outcome(),
        )

    def _outcome(self) -> Outcome:
        if self.finished:
            return Outcome(state="succeeded")
        return Outcome(state="saved") if self.saved else Outcome()


def _resumed(fault: FaultReport, step: int) -> FaultReport:
    if fault.resumed_step >= 0:
        return fault
    return with_fields(fault, resumed_step=min(step, max(0, fault.step)))


def _recovered(fault: FaultReport, highest: int, now: float) -> FaultReport:
    if fault.recovered_seconds is not None or highest <= fault.step:
        return fault
    return with_fields(fault, recovered_seconds=now - fault.detected_unix)
