"""Faults: one report for one thing that happened, named rightly, with the times of its course."""

import pytest
from msgspec.structs import replace

from rtj_api.messages import ExitReport, FaultReport, RankBeat
from rtj_trainer.coordinator.progress import Place, odd_one_out
from rtj_trainer.coordinator.table import Worker
from tests.unit.trainer.world import Agent, World, training_world


def exit_report(
    world: World, rank: int, code: int, number: int = 1, **changes: object
) -> ExitReport:
    return replace(
        ExitReport(
            number=number,
            run=1,
            round=world.store.closed,
            local_rank=0,
            rank=rank,
            exit_code=code,
            tail=f"rank {rank} ended",
        ),
        **changes,
    )


def report_exit(world: World, agent: Agent, code: int, **changes: object) -> None:
    """The launcher saw a process end, and opens the next round as it does."""
    rank = agent.ranks[0]
    number = 1 + len(agent.exits)
    agent.exits = (*agent.exits, exit_report(world, rank.rank, code, number, **changes))
    agent.ranks = (replace(rank, alive=False, age_seconds=0.3),)
    world.beat(agent)


def reopen(world: World) -> None:
    """Launchers open the next round and all start anew from step 8."""
    world.store.open, world.store.members = True, []
    world.run(1.0)
    world.step(8)


def only_fault(world: World) -> FaultReport:
    world.pass_time(0.6)
    (fault,) = world.view.faults
    return fault


def raise_in(world: World, agent: Agent, iteration: int, text: str = "ValueError: boom") -> None:
    raising, *others = agent.ranks
    agent.ranks = (replace(raising, error=text, error_iteration=iteration), *others)
    world.beat(agent)
    for other in world.agents.values():
        other.ranks = tuple(replace(r, iteration=iteration + 1, step=8) for r in other.ranks)
        world.beat(other)
    world.settle()


def test_a_killed_process_is_one_fault_with_its_course() -> None:
    world = training_world()
    report_exit(world, world.agents["pod-1"], -9)
    report_exit(world, world.agents["pod-0"], 1)
    reopen(world)
    fault = only_fault(world)
    assert (fault.kind, fault.rank, fault.slot, fault.position) == ("exit", 1, 1, 1)
    assert (fault.exit_code, fault.message, fault.step) == (-9, "rank 1 ended", 10)
    assert (fault.detected_seconds, fault.recovered_seconds, fault.resumed_step) == (0.3, None, 8)
    world.step(10)
    assert only_fault(world).recovered_seconds is None, "10 is where it was before"
    world.step(11)
    recovered = only_fault(world).recovered_seconds
    assert recovered is not None
    assert 2.0 < recovered < 4.0
    assert world.view.in_job_restarts == 1


@pytest.mark.parametrize("code", [-9, 93], ids=["killed", "do not restart"])
def test_the_process_that_began_it_is_named_whichever_was_heard_first(code: int) -> None:
    for first, second in (("pod-0", "pod-1"), ("pod-1", "pod-0")):
        world = training_world()
        for uid in (first, second):
            report_exit(world, world.agents[uid], code if uid == "pod-1" else 1)
        fault = only_fault(world)
        assert (fault.number, fault.rank, fault.slot, fault.exit_code) == (1, 1, 1, code)


def test_the_same_report_in_every_beat_is_one_fault() -> None:
    world = training_world()
    report_exit(world, world.agents["pod-1"], -9)
    world.pass_time(3.0)
    only_fault(world)


def test_a_fault_in_the_next_round_is_another_one() -> None:
    world = training_world()
    report_exit(world, world.agents["pod-1"], -9)
    reopen(world)
    report_exit(world, world.agents["pod-1"], 1)
    world.pass_time(0.6)
    assert [(f.number, f.round) for f in world.view.faults] == [(1, 0), (2, 1)]


def test_a_node_s_death_that_shows_in_its_peer_first_is_one_fault_of_that_node() -> None:
    world = training_world()
    report_exit(world, world.agents["pod-0"], 1)
    world.pass_time(0.2)
    assert world.view.faults == (), "not yet: the operator takes a number in only once"
    world.kill(world.agents["pod-1"])
    world.run(0.6)
    (fault,) = world.view.faults
    assert (fault.kind, fault.slot, fault.replaced_by_slot) == ("worker", 1, 2)


def test_two_nodes_that_die_together_are_two_faults() -> None:
    world = training_world(slots=4)
    world.kill(world.agents["pod-0"])
    world.kill(world.agents["pod-1"])
    world.run(1.0)
    assert sorted(f.slot for f in world.view.faults) == [0, 1]
    assert world.holders == {0: "pod-2", 1: "pod-3"}


def test_a_lost_spare_is_told_and_needs_no_recovery() -> None:
    world = training_world()
    world.kill(world.agents["pod-2"])
    world.run(1.0)
    (fault,) = world.view.faults
    assert (fault.kind, fault.slot, fault.position) == ("worker", 2, -1)
    assert fault.recovered_seconds == 0.0
    assert world.store.closed == 0


def test_lost_control_takes_its_launchers_with_it_as_one_fault() -> None:
    world = training_world()
    world.kill_control()
    world.settle()
    for slot in (0, 1):
        world.end_launcher(world.agents[f"pod-{slot}"], 1)
    world.pass_time(3.0)
    assert only_fault(world).kind == "control"
    world.direct(run=2)
    world.run(2.0)
    world.step(8)
    world.step(11)
    fault = only_fault(world)
    assert fault.recovered_seconds is not None
    assert fault.resumed_step == 8


def test_a_store_that_does_not_answer_is_lost_control() -> None:
    world = training_world()
    for _ in range(40):
        world.pass_time(0.2)
    assert world.view.control == "dead"
    assert "did not answer" in only_fault(world).message


def test_an_exception_is_one_fault_and_one_restart_however_many_ranks_re_enter() -> None:
    world = training_world(processes_per_node=2)
    raise_in(world, world.agents["pod-1"], iteration=0)
    fault = only_fault(world)
    assert (fault.kind, fault.rank, fault.message) == ("exception", 2, "ValueError: boom")
    assert world.view.in_process_restarts == 1
    world.step(11, iteration=1)
    assert only_fault(world).recovered_seconds is not None
    assert only_fault(world).resumed_step == 8
    assert world.view.in_job_restarts == 0


def test_the_next_exception_of_the_same_processes_is_another_fault() -> None:
    world = training_world()
    raise_in(world, world.agents["pod-1"], iteration=0)
    raise_in(world, world.agents["pod-1"], iteration=1)
    world.pass_time(0.6)
    assert [f.number for f in world.view.faults] == [1, 2]
    assert world.view.in_process_restarts == 2


def test_the_first_to_raise_is_named() -> None:
    world = training_world()
    first, second = world.agents["pod-1"], world.agents["pod-0"]
    for agent, text in ((first, "the cause"), (second, "a consequence")):
        agent.ranks = (replace(agent.ranks[0], error=text, error_iteration=0),)
        world.beat(agent)
    raise_in(world, second, iteration=0, text="a consequence")
    fault = only_fault(world)
    assert (fault.slot, fault.message) == (1, "the cause")


def test_an_in_process_restart_that_nobody_raised_is_a_hang() -> None:
    world = training_world()
    world.run(7.0)
    for agent in world.agents.values():
        agent.ranks = tuple(replace(rank, iteration=1) for rank in agent.ranks)
        world.beat(agent)
    world.pass_time(1.0)
    fault = only_fault(world)
    assert (fault.kind, fault.rank) == ("hang", -1)
    assert fault.detected_seconds >= 7.0, "since the ranks stood still, not since they went on"


def test_an_exception_that_ends_the_process_after_all_is_one_fault() -> None:
    world = training_world()
    raise_in(world, world.agents["pod-1"], iteration=0)
    report_exit(world, world.agents["pod-1"], 1)
    reopen(world)
    assert only_fault(world).kind == "exit"


def test_ranks_that_all_stand_still_are_a_hang_with_the_odd_one_suspected() -> None:
    world = training_world(processes_per_node=2)
    for agent in world.agents.values():
        agent.ranks = tuple(
            replace(rank, phase="forward" if rank.rank == 3 else "all-reduce")
            for rank in agent.ranks
        )
    for _ in range(60):
        world.run(1.0)
    assert world.view.faults == (), "their own monitors come first"
    for _ in range(15):
        world.run(1.0)
    fault = only_fault(world)
    assert (fault.kind, fault.rank, fault.slot) == ("hang", 3, 1)
    assert fault.detected_seconds > 70


def test_ranks_that_repeat_steps_after_a_long_restart_do_not_stand_still() -> None:
    world = training_world(slots=2)
    world.kill(world.agents["pod-1"])
    world.run(80.0)
    world.direct(pods={"pod-0": 0, "pod-1b": 1})
    world.connect(1, "pod-1b", incarnation=1)
    world.run(1.0)
    world.step(8)
    world.run(1.0)
    assert [fault.kind for fault in world.view.faults] == ["worker"]


def test_a_rank_monitor_s_kill_blames_the_one_behind_and_not_the_one_killed() -> None:
    world = training_world(processes_per_node=2)
    slow = world.agents["pod-1"]
    slow.ranks = (slow.ranks[0], replace(slow.ranks[1], step=9))
    world.beat(slow)
    report_exit(world, world.agents["pod-0"], -9, hang=True)
    fault = only_fault(world)
    assert (fault.kind, fault.rank, fault.slot) == ("hang", 3, 1)


def test_a_hang_is_as_long_as_no_rank_moved_though_the_kill_shows_before_its_report() -> None:
    world = training_world()
    world.run(15.0)
    killed = world.agents["pod-0"]
    killed.ranks = (replace(killed.ranks[0], alive=False),)
    world.beat(killed)
    world.settle()
    report_exit(world, killed, -9, hang=True)
    assert only_fault(world).detected_seconds >= 15.0


def test_the_operator_s_restart_opens_one_round_and_is_no_fault() -> None:
    world = training_world()
    world.direct(restart=1)
    world.run(2.0)
    assert (world.store.closed, world.view.restart) == (1, 1)
    assert world.view.faults == ()


def test_what_peers_of_an_excluded_worker_suffer_is_no_fault() -> None:
    world = training_world()
    world.direct(excluded=("pod-1",))
    report_exit(world, world.agents["pod-0"], 1)
    world.run(1.0)
    assert world.members() == {0: ("pod-0", 0), 1: ("pod-2", 1)}
    assert world.view.faults == ()


def test_numbers_and_counts_survive_a_restart_of_the_coordinator() -> None:
    world = training_world()
    raise_in(world, world.agents["pod-1"], iteration=0)
    report_exit(world, world.agents["pod-1"], -9)
    reopen(world)
    world.pass_time(1.0)
    world.restart_coordinator()
    for slot in range(3):
        world.connect(slot)
    world.run(1.0)
    world.step(11)
    assert (world.view.in_process_restarts, world.view.in_job_restarts) == (1, 1)
    report_exit(world, world.agents["pod-0"], -9)
    world.pass_time(0.6)
    assert [(f.number, f.recovered_seconds is None) for f in world.view.faults] == [
        (1, False),
        (2, True),
    ]


def rank_at(rank: int, step: int, phase: str) -> Place:
    worker = Worker(f"pod-{rank}", "", rank, 0, 0.0)
    return Place(worker, rank, RankBeat(local_rank=0, rank=rank, step=step, phase=phase))


@pytest.mark.parametrize(
    ("places", "want"),
    [
        pytest.param([(5, "a"), (5, "a"), (4, "a")], 2, id="the only one behind"),
        pytest.param([(5, "a"), (4, "a"), (4, "a")], None, id="two are behind"),
        pytest.param([(5, "a"), (5, "b"), (5, "a")], 1, id="the only one in another phase"),
        pytest.param([(5, "a"), (5, "b")], None, id="two ranks accuse each other"),
        pytest.param([(5, "a"), (5, "a"), (5, "a")], None, id="all alike"),
        pytest.param([(5, "a"), (5, "b"), (5, "c")], None, id="all different"),
        pytest.param([(5, "a")], None, id="alone"),
    ],
)
def test_suspect_of_a_stall(places: list[tuple[int, str]], want: int | None) -> None:
    found = odd_one_out([rank_at(rank, step, phase) for rank, (step, phase) in enumerate(places)])
    assert (None if found is None else found.beat.rank) == want
