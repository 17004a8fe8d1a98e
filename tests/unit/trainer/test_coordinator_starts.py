"""Starts that fail in a row are told as such, and held back longer and longer."""

import pytest

from rtj_trainer.coordinator.starts import Starts, StartWatch
from tests.unit.trainer.test_coordinator_faults import raise_in, reopen, report_exit
from tests.unit.trainer.world import World, training_world

LONGEST = [0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 160.0, 160.0]


@pytest.mark.parametrize(("chance", "part"), [(0.0, 1.0), (1.0, 0.75)], ids=["least", "most"])
def test_each_failure_in_a_row_is_held_twice_as_long(chance: float, part: float) -> None:
    watch = StartWatch(Starts(), 0.0, lambda: chance)
    held = [watch.fail((1, number, 0), 1000.0 * number) for number in range(len(LONGEST))]
    assert held == [seconds * part for seconds in LONGEST]


def test_however_many_ranks_fail_a_start_fails_once() -> None:
    watch = StartWatch(Starts(), 0.0, lambda: 0.0)
    watch.fail((1, 0, 0), 0.0)
    assert [watch.fail((1, 1, 0), now) for now in (10.0, 12.0, 13.0)] == [5.0, 3.0, 2.0]
    assert watch.holds(14.9)
    assert not watch.holds(15.0)


def test_a_step_ends_the_row_and_what_is_kept_of_it() -> None:
    watch = StartWatch(Starts(), 0.0, lambda: 0.0)
    for number in range(4):
        watch.fail((1, number, 0), 0.0)
    watch.succeed()
    assert (watch.holds(0.0), watch.kept) == (False, Starts())
    assert watch.fail((1, 4, 0), 100.0) == 0.0


def test_a_restarted_coordinator_goes_on_with_the_row() -> None:
    watch = StartWatch(Starts(), 1000.0, lambda: 0.0)
    for number in range(3):
        watch.fail((1, number, 0), 50.0)
    again = StartWatch(watch.kept, 1040.0, lambda: 0.0)
    assert again.holds(19.0)
    assert not again.holds(20.0)
    assert again.fail((1, 3, 0), 30.0) == 20.0


# --- in the whole -------------------------------------------------------------------------------


def trained_world() -> World:
    """A job that has made steps since its start."""
    world = training_world()
    world.step(11)
    return world


def fail_start(world: World) -> None:
    """A rank of the newest round ends before its first step, and NVRx opens the next round."""
    report_exit(world, world.agents["pod-1"], 1, tail="loading\nOSError: storage is down")
    world.settle()
    world.store.open, world.store.members = True, []


def held_world() -> World:
    """Two starts failed in a row."""
    world = trained_world()
    report_exit(world, world.agents["pod-1"], -9)
    world.settle()
    world.store.open, world.store.members = True, []
    for _ in range(2):
        world.run(1.0)
        fail_start(world)
    return world


def test_a_failure_after_a_step_is_none_of_a_start() -> None:
    world = trained_world()
    report_exit(world, world.agents["pod-1"], 1)
    reopen(world)
    (fault,) = world.view.faults
    assert (fault.before_step, fault.backoff_seconds) == (False, 0.0)
    assert world.view.ranks_training == 2, "started at once"


def test_the_first_failed_start_is_repeated_at_once_the_second_is_held() -> None:
    world = held_world()
    world.pass_time(0.6)
    _, first, second = world.view.faults
    assert (first.before_step, first.backoff_seconds) == (True, 0.0)
    assert second.before_step
    assert 3.75 <= second.backoff_seconds <= 5.0
    assert second.message.endswith("\nOSError: storage is down")
    world.run(2.0)
    assert {agent.launcher.state for agent in world.agents.values()} == {"parked"}
    assert len(world.view.faults) == 3, "parked launchers are no fault"
    world.run(4.0)
    assert world.view.ranks_training == 2, "the hold is over"
    world.step(8)
    world.step(9)
    assert len(world.view.faults) == 3
    fail_start_at = world.view.faults[-1]
    report_exit(world, world.agents["pod-1"], 1)
    reopen(world)
    world.pass_time(0.6)
    assert world.view.faults[-1].number > fail_start_at.number
    assert not world.view.faults[-1].before_step, "steps were made: a new row"


def test_the_third_failure_in_a_row_is_held_longer() -> None:
    world = held_world()
    world.run(6.0)
    assert world.view.ranks_training == 2
    fail_start(world)
    world.run(0.6)
    assert 7.5 <= world.view.faults[-1].backoff_seconds <= 10.0
    world.run(6.0)
    assert world.view.ranks_training == 0
    world.run(5.0)
    assert world.view.ranks_training == 2


def test_the_operator_s_restart_waits_for_the_hold_too() -> None:
    world = held_world()
    world.direct(restart=1)
    world.run(2.0)
    assert world.view.ranks_training == 0
    world.run(4.0)
    assert (world.view.ranks_training, world.view.restart) == (2, 1)


def test_a_new_run_waits_for_the_hold_too() -> None:
    world = held_world()
    world.direct(run=2)
    world.run(2.0)
    assert (world.view.run, world.view.control, world.view.ranks_training) == (2, "running", 0)
    world.run(4.0)
    assert world.view.ranks_training == 2


def test_a_restarted_coordinator_holds_on() -> None:
    world = held_world()
    world.run(0.6)
    world.restart_coordinator()
    for slot in range(3):
        world.connect(slot)
    world.run(1.0)
    assert {agent.launcher.state for agent in world.agents.values()} == {"parked"}
    world.run(15.0)
    assert world.view.ranks_training == 2


def test_a_worker_lost_in_a_hold_is_replaced_when_it_is_over() -> None:
    world = held_world()
    world.run(0.6)
    world.kill(world.agents["pod-0"])
    world.run(6.0)
    assert set(world.holders.values()) == {"pod-1", "pod-2"}
    assert world.view.ranks_training == 2


def test_training_functions_that_raise_at_once_are_held_like_processes() -> None:
    world = trained_world()
    raise_in(world, world.agents["pod-1"], 0)
    assert not world.view.faults or not world.view.faults[-1].before_step
    for iteration in (1, 2):
        raise_in(world, world.agents["pod-1"], iteration, "OSError: storage is down")
    world.run(0.6)
    assert [fault.before_step for fault in world.view.faults] == [False, True, True]
    assert world.view.faults[-1].backoff_seconds > 3
    world.run(2.0)
    assert world.view.ranks_training == 0
    world.run(4.0)
    assert world.view.ranks_training == 2


def test_a_coordinator_that_comes_to_a_training_job_takes_no_fault_for_a_failed_start() -> None:
    world = trained_world()
    world.restart_coordinator()
    for slot in range(3):
        world.connect(slot)
    world.run(0.6)
    report_exit(world, world.agents["pod-1"], -9)
    world.pass_time(0.6)
    assert [fault.before_step for fault in world.view.faults] == [False]
