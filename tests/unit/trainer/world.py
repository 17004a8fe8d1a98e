"""A model of what surrounds the coordinator's core: agents, launchers and NVRx's rendezvous.

Virtual time. Agents do what their directive says, launchers join an open round, NVRx closes a round
on N members and sorts them by infra rank, as the real ones do; a dead launcher stays in its round.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from rtj_api.messages import (
    Beat,
    ExitReport,
    Hello,
    JobDirective,
    JobView,
    LauncherState,
    RankBeat,
    WorkerDirective,
)
from rtj_trainer.coordinator.audit import ClearEntry, OpenRound, ReleaseMaster, TakeLaunch
from rtj_trainer.coordinator.control_wire import ControlStatus
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.directives import directive_for
from rtj_trainer.coordinator.memory import Memory
from rtj_trainer.coordinator.view import job_view
from rtj_trainer.nvrx.limits import LAUNCHES
from rtj_trainer.nvrx.rendezvous import Participant, Rounds

UNIX = 1_800_000_000.0
STORE_HOST = "coordinator"


@dataclass
class Agent:
    """One worker pod."""

    slot: int
    uid: str
    incarnation: int = 0
    connection: int = 0
    # Stopped: says and does nothing, its socket stays open.
    frozen: bool = False
    directive: WorkerDirective | None = None
    launcher: LauncherState = field(default_factory=LauncherState)
    ranks: tuple[RankBeat, ...] = ()
    exits: tuple[ExitReport, ...] = ()
    terminating: bool = False
    seq: int = 0
    # When the coordinator was last known to hear it.
    leased_at: float = 0.0

    @property
    def joins(self) -> bool:
        """Whether its launcher takes part in rounds."""
        return self.launcher.state in ("joining", "training")


@dataclass
class Store:
    """NVRx's rendezvous of one run."""

    closed: int = -1
    open: bool = True
    members: list[Participant] = field(default_factory=list[Participant])
    launches: dict[int, int] = field(default_factory=dict[int, int])
    finished: bool = False

    def rounds(self) -> Rounds:
        return Rounds(self.closed, self.open, tuple(self.members), "", self.finished)


class World:
    """A job of `nodes` positions; all workers of `slots` are listed by the operator."""

    def __init__(self, nodes: int = 2, slots: int = 3, processes_per_node: int = 1) -> None:
        self.now = 100.0
        self.core = self._new_core(Memory())
        self.agents: dict[str, Agent] = {}
        self.store = Store()
        self._connections = 0
        self._run = 0
        self.directive = JobDirective(
            epoch=1,
            number=1,
            run=1,
            nodes=nodes,
            processes_per_node=processes_per_node,
            pods={f"pod-{slot}": slot for slot in range(slots)},
            beat_timeout_seconds=5.0,
            rank_timeout_seconds=60.0,
        )

    def _new_core(self, kept: Memory) -> Core:
        return Core("job", kept, self.now, UNIX - 100.0)

    # --- operator and control --------------------------------------------------------------------

    def direct(self, **changes: object) -> None:
        self.directive = replace(self.directive, **{"number": self.directive.number + 1, **changes})
        self.core.direct(self.directive)
        self.settle()

    def serve_control(self) -> None:
        """nvrx-control comes up for the run that is asked for."""
        request = self.core.control_request
        if request is not None and request.run > self._run:
            self._run = request.run
            self.store = Store()
            for agent in self.agents.values():
                if agent.launcher.run < self._run and agent.joins:
                    # Its control is gone.
                    agent.launcher = replace(agent.launcher, state="exited", exit_code=1)
        if self._run:
            self.core.tell_control(ControlStatus(run=self._run, state="running"), self.now)

    def kill_control(self, exit_code: int | None = -9) -> None:
        status = ControlStatus(run=self._run, state="exited", exit_code=exit_code)
        self.core.tell_control(status, self.now)

    def restart_coordinator(self) -> None:
        """Its container restarts: sockets close, the store lives on."""
        self.core = self._new_core(self.core.memory())
        for agent in self.agents.values():
            agent.connection = 0

    # --- workers ---------------------------------------------------------------------------------

    def connect(self, slot: int, uid: str = "", incarnation: int = 0) -> Agent:
        uid = uid or f"pod-{slot}"
        agent = self.agents.setdefault(uid, Agent(slot, uid, incarnation))
        self._connections += 1
        agent.connection = self._connections
        hello = Hello(
            role="worker",
            job_uid="job",
            nonce="",
            pod_uid=uid,
            pod_name=f"job-worker-{slot}-{agent.incarnation}",
            slot=slot,
            incarnation=agent.incarnation,
        )
        self.core.connect(hello, agent.connection, self.now)
        self.beat(agent)
        return agent

    def kill(self, agent: Agent) -> None:
        """The pod dies with all its processes; its socket closes."""
        self.core.disconnect(agent.uid, agent.connection, self.now)
        del self.agents[agent.uid]

    def cut(self, agent: Agent) -> None:
        """Only the connection breaks."""
        self.core.disconnect(agent.uid, agent.connection, self.now)
        agent.connection = 0

    def beat(self, agent: Agent, **told: object) -> None:
        """`told`: what it says beside its own state."""
        if agent.frozen or not agent.connection:
            return
        agent.seq += 1
        agent.leased_at = self.now
        beat = Beat(
            seq=agent.seq,
            launcher=agent.launcher,
            ranks=agent.ranks,
            exits=agent.exits,
            terminating=agent.terminating,
        )
        self.core.hear(agent.uid, replace(beat, **told), self.now)

    def end_launcher(self, agent: Agent, exit_code: int, tail: str = "") -> None:
        agent.launcher = replace(agent.launcher, state="exited", exit_code=exit_code, tail=tail)
        agent.ranks = ()
        self.beat(agent)

    def obey(self, agent: Agent) -> None:
        """The agent makes its directive true."""
        worker = self.core.table.get(agent.uid)
        if agent.frozen or not agent.connection or worker is None:
            return
        agent.directive = directive_for(self.core, worker, STORE_HOST) or agent.directive
        wanted = agent.directive
        if wanted is None:
            return
        if wanted.state == "exit":
            self.kill(agent)
        elif wanted.state == "park" and agent.launcher.state != "parked":
            agent.launcher, agent.ranks = LauncherState(), ()
        elif wanted.state == "train":
            self._train(agent, wanted)
        self.beat(agent) if agent.uid in self.agents else None

    def _train(self, agent: Agent, wanted: WorkerDirective) -> None:
        launch = (wanted.run, wanted.position, wanted.launch)
        if (agent.launcher.run, agent.launcher.position, agent.launcher.launch) == launch:
            return
        agent.ranks = ()
        agent.launcher = LauncherState(
            state="joining", run=wanted.run, position=wanted.position, launch=wanted.launch, pid=1
        )

    # --- the rendezvous --------------------------------------------------------------------------

    def join(self, agent: Agent) -> None:
        """Its launcher enters the open round, leaving the one it trained in, if the fence lets it:
        the directive means this launch and the coordinator was heard lately."""
        store, state, wanted = self.store, agent.launcher, agent.directive
        fresh = self.now - agent.leased_at <= self.directive.beat_timeout_seconds
        if not fresh or wanted is None or wanted.state != "train":
            return
        if (wanted.run, wanted.position, wanted.launch) != (
            state.run,
            state.position,
            state.launch,
        ):
            return
        if not (agent.joins and store.open and state.run == self._run) or agent.frozen:
            return
        infra_rank = state.position * LAUNCHES + state.launch
        if any(member.infra_rank == infra_rank for member in store.members):
            return
        agent.launcher = replace(state, state="joining")
        agent.ranks = ()
        entry = 1 + len(store.members)
        raw = f"{entry}:{infra_rank}".encode()
        store.members.append(Participant(entry, store.closed + 1, infra_rank, agent.uid, -1, raw))

    def close_round(self) -> None:
        """NVRx closes the open round on N members, and their launchers start the ranks."""
        store, nodes = self.store, self.directive.nodes
        if not store.open or len(store.members) < nodes:
            return
        store.closed += 1
        store.open = False
        ordered = sorted(store.members, key=lambda member: member.infra_rank)
        store.members = [
            Participant(m.entry, m.round, m.infra_rank, m.addr, rank, m.raw)
            for rank, m in enumerate(ordered)
        ]
        for member in store.members[:nodes]:
            agent = self.agents.get(member.addr)
            if agent is not None and agent.joins and not agent.frozen:
                self._start_ranks(agent, member.rank)

    def _start_ranks(self, agent: Agent, group_rank: int) -> None:
        count = self.directive.processes_per_node
        agent.launcher = replace(agent.launcher, state="training")
        agent.ranks = tuple(
            RankBeat(
                local_rank=local,
                rank=group_rank * count + local,
                pid=100 + local,
                alive=True,
                round=self.store.closed,
                step=-1,
            )
            for local in range(count)
        )

    def act(self) -> None:
        """The coordinator's wishes are done at the store, after a fresh look at it."""
        if self.core.control.running:
            self.core.see_rounds(self._run, self.store.rounds(), self.now)
        self.settle()
        for action in self.core.store_actions:
            match action:
                case TakeLaunch(run, position, uid):
                    launch = self.store.launches.get(position, 0)
                    self.store.launches[position] = launch + 1
                    self.core.set_launch(run, position, uid, launch)
                case OpenRound(_, after) if after == self.store.closed and not self.store.open:
                    self.store.open = True
                    self.store.members = []
                case ClearEntry(_, participant) if participant in self.store.members:
                    self.store.members.remove(participant)
                case OpenRound() | ClearEntry() | ReleaseMaster():
                    continue

    # --- time ------------------------------------------------------------------------------------

    def settle(self) -> None:
        self.core.settle(self.now)

    def pass_time(self, seconds: float) -> None:
        """Time passes; who can beats every 0.2 s."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + 0.2)
            for agent in list(self.agents.values()):
                self.beat(agent)
            self.settle()

    def run(self, seconds: float = 2.0) -> None:
        """Everybody does what there is to do, for a while."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.serve_control() if self.core.control.state == "starting" else None
            self.act()
            for agent in list(self.agents.values()):
                self.obey(agent)
            for agent in list(self.agents.values()):
                self.join(agent)
            self.close_round()
            self.pass_time(0.2)

    def step(self, step: int, **changes: object) -> None:
        """All ranks complete a step, and say it."""
        for agent in self.agents.values():
            agent.ranks = tuple(replace(rank, step=step, **changes) for rank in agent.ranks)
            self.beat(agent)
        self.settle()

    @property
    def view(self) -> JobView:
        return job_view(self.core, 0, 0, self.now)

    @property
    def holders(self) -> dict[int, str]:
        return self.core.gang.seats.holders()

    def members(self) -> dict[int, tuple[str, int]]:
        """rank -> (pod, position) of the newest round."""
        return {m.rank: (m.addr, m.position) for m in self.store.members}


def training_world(nodes: int = 2, slots: int = 3, processes_per_node: int = 1) -> World:
    """A job that trains at step 10, its spares waiting."""
    world = World(nodes, slots, processes_per_node)
    world.direct()
    for slot in range(slots):
        world.connect(slot)
    world.run(2.0)
    world.step(10)
    return world
