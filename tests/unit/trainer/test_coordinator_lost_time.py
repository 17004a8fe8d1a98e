"""Lost time begins at the last step that all ranks made, whoever noticed when."""

import pytest
from msgspec.structs import replace

from rtj_trainer.coordinator.memory import Memory
from tests.unit.trainer.test_coordinator_faults import only_fault, raise_in, report_exit
from tests.unit.trainer.world import World, training_world


def trained_world(slots: int = 3) -> World:
    """At step 11, made just now."""
    world = training_world(slots=slots)
    world.step(11)
    return world


def stand(world: World, seconds: float) -> None:
    """No rank moves, all beat: their records grow older."""
    began = world.now
    while world.now < began + seconds - 1e-9:
        for agent in world.agents.values():
            age = world.now + 0.2 - began
            agent.ranks = tuple(replace(rank, age_seconds=age) for rank in agent.ranks)
        world.run(0.2)


def start_anew(world: World) -> None:
    """Launchers open the next round and start, from a checkpoint at step 8."""
    world.store.open, world.store.members = True, []
    world.run(1.0)
    world.step(8, age_seconds=0.0)


def test_a_fault_tells_since_when_training_stood_still_and_when_it_moved_again() -> None:
    world = trained_world()
    stand(world, 25.0)
    report_exit(world, world.agents["pod-1"], -9)
    detected = world.now
    fault = only_fault(world)
    assert fault.stalled_seconds == pytest.approx(25.0, abs=0.3)
    assert (fault.detected_seconds, fault.resumed_seconds) == (0.3, None)
    start_anew(world)
    assert only_fault(world).resumed_seconds is None, "8 was loaded, not made"
    world.step(9)
    resumed = world.now - detected
    world.pass_time(1.0)
    for step in (10, 11, 12):
        world.step(step)
    recovered = world.now - detected
    fault = only_fault(world)
    assert fault.resumed_seconds == pytest.approx(resumed, abs=0.01)
    assert fault.recovered_seconds == pytest.approx(recovered, abs=0.01)


def test_a_step_that_is_heard_of_late_was_made_when_its_ranks_say() -> None:
    world = trained_world()
    report_exit(world, world.agents["pod-1"], -9)
    detected = world.now
    start_anew(world)
    world.pass_time(1.0)
    made = world.now
    world.pass_time(3.0)
    world.step(9, age_seconds=3.0)
    fault = only_fault(world)
    assert fault.resumed_seconds == pytest.approx(made - detected, abs=0.01)
    assert world.view.step_age_seconds == pytest.approx(world.now - made, abs=0.3)


def test_a_step_counts_when_the_last_rank_has_made_it() -> None:
    world = trained_world()
    first, second = world.agents["pod-0"], world.agents["pod-1"]
    world.pass_time(2.0)
    first.ranks = tuple(replace(rank, step=12) for rank in first.ranks)
    world.pass_time(2.0)
    assert world.view.step_age_seconds == pytest.approx(4.0, abs=0.3)
    second.ranks = tuple(replace(rank, step=12) for rank in second.ranks)
    world.pass_time(0.2)
    assert world.view.step_age_seconds == pytest.approx(0.0, abs=0.3)


def test_before_the_first_step_nothing_is_lost() -> None:
    world = World()
    world.direct()
    for slot in range(3):
        world.connect(slot)
    world.run(2.0)
    assert world.view.step_age_seconds == -1.0
    report_exit(world, world.agents["pod-1"], 1)
    assert only_fault(world).stalled_seconds == -1.0


def test_the_loss_of_a_spare_costs_no_time() -> None:
    world = trained_world()
    stand(world, 5.0)
    world.kill(world.agents["pod-2"])
    world.run(1.0)
    fault = only_fault(world)
    assert (fault.stalled_seconds, fault.resumed_seconds, fault.recovered_seconds) == (0, 0, 0)


def test_a_restart_in_the_process_tells_the_same() -> None:
    world = trained_world()
    stand(world, 4.0)
    raise_in(world, world.agents["pod-1"], 0)
    fault = only_fault(world)
    assert fault.stalled_seconds == pytest.approx(4.0, abs=0.3)
    assert fault.resumed_seconds is None
    world.step(9, age_seconds=0.0)
    assert only_fault(world).resumed_seconds is not None


def test_one_fault_that_shows_twice_stood_still_since_the_same_step() -> None:
    world = trained_world()
    stand(world, 3.0)
    report_exit(world, world.agents["pod-0"], 1)
    stand(world, 1.0)
    world.kill(world.agents["pod-1"])
    world.run(0.6)
    (fault,) = world.view.faults
    assert fault.kind == "worker"
    assert fault.stalled_seconds == pytest.approx(3.0, abs=0.3)


def test_a_restarted_container_takes_the_step_from_the_first_beats() -> None:
    world = trained_world()
    stand(world, 20.0)
    world.restart_coordinator()
    world.connect(0)
    world.connect(1)
    world.run(0.2)
    assert world.view.step_age_seconds == pytest.approx(20.0, abs=0.5)


def test_a_restarted_container_that_hears_nobody_remembers_the_step() -> None:
    world = trained_world()
    stand(world, 20.0)
    world.restart_coordinator()
    world.settle()
    assert world.view.step_age_seconds == pytest.approx(20.0, abs=0.5)


def test_a_new_coordinator_counts_from_the_last_step_of_the_run_before() -> None:
    world = trained_world()
    stand(world, 20.0)
    world.core = world._new_core(Memory())
    # The other worker is gone with the first coordinator's node.
    world.connect(0)
    world.direct(run=2)
    world.pass_time(0.2)
    assert world.view.step_age_seconds == pytest.approx(20.0, abs=0.5)
    assert world.view.highest_step == 11
