"""Positions: who gets which, when they are lost, and that no two workers ever share one."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from rtj_trainer.coordinator.directives import directive_for
from tests.unit.trainer.world import STORE_HOST, World, training_world


def test_nothing_starts_without_an_operator() -> None:
    world = World()
    for slot in range(3):
        world.connect(slot)
    world.run(3.0)
    assert world.core.control_request is None
    assert all(agent.directive is None for agent in world.agents.values())


def test_nothing_starts_before_there_are_enough_workers() -> None:
    world = World()
    world.direct()
    world.connect(2)
    world.run(10.0)
    assert world.holders == {}
    world.connect(1)
    world.run(1.0)
    assert world.holders == {0: "pod-1", 1: "pod-2"}, "lowest connected slots first"


def test_a_closed_socket_moves_the_position_to_the_spare_within_a_second() -> None:
    world = training_world()
    assert world.holders == {0: "pod-0", 1: "pod-1"}
    world.kill(world.agents["pod-1"])
    world.run(0.8)
    assert world.holders == {0: "pod-0", 1: "pod-2"}
    assert world.members() == {0: ("pod-0", 0), 1: ("pod-2", 1)}
    assert world.store.closed == 1, "one round was enough"


def test_a_connection_that_comes_back_at_once_loses_nothing() -> None:
    world = training_world()
    world.cut(world.agents["pod-1"])
    world.pass_time(0.2)
    world.connect(1)
    world.run(2.0)
    assert world.holders == {0: "pod-0", 1: "pod-1"}
    assert world.store.closed == 0
    assert world.view.faults == ()


def test_a_silent_worker_is_lost_after_the_beat_timeout_and_parked_when_it_thaws() -> None:
    world = training_world()
    frozen = world.agents["pod-0"]
    frozen.frozen = True
    world.run(4.6)
    assert world.holders[0] == "pod-0"
    world.run(1.6)
    assert world.members() == {0: ("pod-2", 0), 1: ("pod-1", 1)}
    frozen.frozen = False
    world.run(1.0)
    assert frozen.launcher.state == "parked"
    assert world.store.closed == 1
    (fault,) = world.view.faults
    assert (fault.kind, fault.slot, fault.position, fault.replaced_by_slot) == ("worker", 0, 0, 2)
    assert 5.0 <= fault.detected_seconds < 5.7


def test_a_coordinator_that_stood_still_blames_nobody() -> None:
    world = training_world()
    world.now += 60.0
    world.settle()
    world.run(2.0)
    assert world.holders == {0: "pod-0", 1: "pod-1"}
    assert (world.store.closed, world.view.control, world.view.faults) == (0, "running", ())


def test_without_a_spare_the_round_is_opened_once_and_a_newcomer_gets_the_position() -> None:
    world = training_world(slots=2)
    world.kill(world.agents["pod-0"])
    world.run(20.0)
    assert (world.store.closed, world.store.open) == (0, True)
    assert world.holders == {1: "pod-1"}
    world.direct(pods={"pod-0b": 0, "pod-1": 1})
    world.connect(0, "pod-0b", incarnation=1)
    world.run(1.0)
    assert world.members() == {0: ("pod-0b", 0), 1: ("pod-1", 1)}


def test_a_launcher_that_ends_by_itself_is_given_a_new_launch() -> None:
    world = training_world(slots=2)
    agent = world.agents["pod-1"]
    world.end_launcher(agent, 1, "boom")
    world.run(1.0)
    assert world.members() == {0: ("pod-0", 0), 1: ("pod-1", 1)}
    assert (agent.launcher.launch, agent.launcher.state) == (1, "training")
    fault = world.view.faults[-1]
    assert (fault.kind, fault.exit_code, fault.message) == ("launcher", 1, "boom")


@pytest.mark.parametrize(
    ("out_of_memory", "text"),
    [
        pytest.param(True, "memory is used up; raise the memory limit", id="the OOM killer"),
        pytest.param(False, "SIGKILL", id="somebody else"),
    ],
)
def test_a_launcher_that_was_killed_is_told_with_what_killed_it(
    out_of_memory: bool, text: str
) -> None:
    world = training_world()
    agent = world.agents["pod-1"]
    agent.launcher = replace(agent.launcher, out_of_memory=out_of_memory)
    world.end_launcher(agent, -9)
    world.run(1.0)
    (fault,) = world.view.faults
    assert (fault.kind, fault.out_of_memory) == ("launcher", out_of_memory)
    assert text in fault.message


def test_a_launcher_that_ends_again_and_again_is_started_ever_later() -> None:
    world = training_world(slots=2)
    agent = world.agents["pod-1"]
    launches: list[int] = []
    for _ in range(120):
        if agent.joins:
            world.end_launcher(agent, 1)
        world.run(0.4)
        launches.append(agent.launcher.launch)
    assert 4 <= max(launches) <= 8


def test_an_excluded_worker_is_parked_and_its_position_moves() -> None:
    world = training_world()
    world.direct(excluded=("pod-0",))
    world.run(1.0)
    assert world.members() == {0: ("pod-2", 0), 1: ("pod-1", 1)}
    assert world.agents["pod-0"].launcher.state == "parked"
    assert world.view.faults == (), "the operator knows why"


def test_a_worker_that_is_no_longer_listed_is_told_to_exit() -> None:
    world = training_world()
    world.direct(pods={"pod-1": 1, "pod-2": 2})
    world.run(1.0)
    assert "pod-0" not in world.agents
    assert world.holders == {0: "pod-2", 1: "pod-1"}


def test_a_stopping_pod_hands_its_position_over_and_exits() -> None:
    world = training_world()
    world.agents["pod-1"].terminating = True
    world.run(1.0)
    assert "pod-1" not in world.agents
    assert world.members()[1] == ("pod-2", 1)
    assert "SIGTERM" in world.view.faults[0].message


def test_a_new_run_keeps_everybody_at_the_old_position() -> None:
    world = training_world()
    world.kill(world.agents["pod-0"])
    world.run(1.0)
    assert world.holders == {0: "pod-2", 1: "pod-1"}
    world.direct(pods={"pod-0b": 0, "pod-1": 1, "pod-2": 2})
    world.connect(0, "pod-0b", incarnation=1)
    world.kill_control()
    world.settle()
    assert world.view.control == "dead"
    world.direct(run=2)
    world.run(2.0)
    assert world.view.control == "running"
    assert world.members() == {0: ("pod-2", 0), 1: ("pod-1", 1)}
    assert (world.core.gang.run, world.store.closed) == (2, 0)


def test_a_restarted_coordinator_disturbs_nothing() -> None:
    world = training_world()
    before = [agent.launcher for agent in world.agents.values()]
    world.restart_coordinator()
    for slot in (2, 0, 1):
        world.run(0.6)
        world.connect(slot)
    world.run(3.0)
    world.step(11)
    assert [agent.launcher for agent in world.agents.values()] == before
    assert world.holders == {0: "pod-0", 1: "pod-1"}
    assert world.store.closed == 0
    assert world.view.faults == ()
    assert world.view.in_job_restarts == 0


def test_who_does_not_come_back_to_a_restarted_coordinator_is_replaced() -> None:
    world = training_world()
    world.restart_coordinator()
    world.connect(0)
    world.connect(2)
    world.run(3.0)
    assert world.holders == {0: "pod-0"}, "it may still come back"
    world.run(4.0)
    assert world.members() == {0: ("pod-0", 0), 1: ("pod-2", 1)}


def test_a_worker_that_finished_while_others_start_anew_is_launched_again() -> None:
    world = training_world()
    finished, crashed = world.agents["pod-0"], world.agents["pod-1"]
    world.step(20)
    # All its ranks are done: its launcher waits in NVRx's exit barrier and joins nothing.
    finished.ranks = tuple(replace(rank, done=True, alive=False) for rank in finished.ranks)
    world.beat(finished)
    world.store.open, world.store.members = True, []
    world.join(crashed)
    world.act()
    world.run(1.0)
    assert finished.launcher.launch == 1
    assert world.members() == {0: ("pod-0", 0), 1: ("pod-1", 1)}


class Gang(RuleBasedStateMachine):
    """Any sequence of connects, deaths, freezes, cuts, exits and coordinator restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(nodes=2, slots=4)
        self.world.direct()
        self.owners: dict[tuple[int, int, int], str] = {}
        self.generation = 0

    def _pods(self) -> dict[str, int]:
        return dict(self.world.directive.pods)

    @rule(slot=st.integers(0, 3))
    def a_worker_starts(self, slot: int) -> None:
        known = [agent for agent in self.world.agents.values() if agent.slot == slot]
        if known:
            return
        self.generation += 1
        uid = f"pod-{slot}-{self.generation}"
        pods = {u: s for u, s in self._pods().items() if s != slot} | {uid: slot}
        self.world.direct(pods=pods)
        self.world.connect(slot, uid, incarnation=self.generation)

    @rule(slot=st.integers(0, 3), what=st.sampled_from(["kill", "cut", "freeze", "thaw", "exit"]))
    def something_happens_to_a_worker(self, slot: int, what: str) -> None:
        for agent in [a for a in self.world.agents.values() if a.slot == slot]:
            match what:
                case "kill":
                    self.world.kill(agent)
                case "cut" if agent.connection:
                    self.world.cut(agent)
                case "freeze":
                    agent.frozen = True
                case "thaw":
                    self._thaw(slot)
                case "exit" if agent.joins and not agent.frozen:
                    self.world.end_launcher(agent, 1)
                case _:
                    continue

    def _thaw(self, slot: int) -> None:
        for agent in [a for a in self.world.agents.values() if a.slot == slot]:
            agent.frozen = False
            if not agent.connection:
                self.world.connect(slot, agent.uid)

    @rule(slot=st.integers(0, 3))
    def an_agent_obeys(self, slot: int) -> None:
        for agent in [a for a in self.world.agents.values() if a.slot == slot]:
            self.world.obey(agent)

    @rule(slot=st.integers(0, 3))
    def a_launcher_joins(self, slot: int) -> None:
        for agent in self.world.agents.values():
            if agent.slot == slot:
                self.world.join(agent)

    @rule()
    def the_round_closes(self) -> None:
        self.world.close_round()

    @rule()
    def the_store_is_served(self) -> None:
        if self.world.core.control.state == "starting":
            self.world.serve_control()
        self.world.act()

    @rule(seconds=st.sampled_from([0.2, 1.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(seconds=st.sampled_from([0.6, 2.0]))
    def everybody_works(self, seconds: float) -> None:
        self.world.run(seconds)

    @precondition(lambda self: self.generation > 2)
    @rule()
    def the_coordinator_restarts(self) -> None:
        self.world.restart_coordinator()

    @precondition(lambda self: self.world.core.control.running)
    @rule()
    def control_dies(self) -> None:
        self.world.kill_control()
        self.world.direct(run=self.world.directive.run + 1)

    @invariant()
    def no_position_has_two_workers_and_no_launch_two_owners(self) -> None:
        positions: list[int] = []
        for worker in self.world.core.table:
            directive = directive_for(self.world.core, worker, STORE_HOST)
            if directive is None or directive.state != "train":
                continue
            positions.append(directive.position)
            launch = (directive.run, directive.position, directive.launch)
            assert self.owners.setdefault(launch, worker.uid) == worker.uid
        assert len(positions) == len(set(positions))
        assert len(positions) <= 2

    def teardown(self) -> None:
        """However it got there: two healthy workers are enough to train again."""
        for slot in range(4):
            self._thaw(slot)
        for slot in range(2):
            self.a_worker_starts(slot)
        if self.world.core.control.dead:
            self.world.direct(run=self.world.directive.run + 1)
        self.world.run(60.0)
        seats = self.world.core.gang.seats
        assert seats.vacant == []
        assert not self.world.store.open
        members = {(m.rank, m.position, m.launch) for m in self.world.store.members[:2]}
        assert members == {(s.position, s.position, s.launch) for s in seats}


Gang.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestGang = Gang.TestCase
