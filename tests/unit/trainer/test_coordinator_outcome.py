"""How a run ends: only what is certain, and nobody is sent away before the operator knows it."""

import pytest
from msgspec.structs import replace

from rtj_trainer.coordinator.directives import directive_for
from tests.unit.trainer.world import STORE_HOST, World, training_world


def states(world: World) -> dict[int, str]:
    """slot -> state of its directive."""
    said = ((w.slot, directive_for(world.core, w, STORE_HOST)) for w in world.core.table)
    return {slot: directive.state for slot, directive in said if directive is not None}


def finish(world: World, slots: tuple[int, ...], **marks: bool) -> None:
    for slot in slots:
        agent = world.agents[f"pod-{slot}"]
        agent.ranks = tuple(replace(rank, alive=False, **marks) for rank in agent.ranks)
        world.beat(agent)
    world.settle()


def test_success_needs_the_last_member_key_and_all_done_marks() -> None:
    world = training_world(processes_per_node=2)
    finish(world, (0,), done=True)
    world.store.finished = True
    world.act()
    assert world.view.outcome.state == "none", "rank 2 and 3 did not say that they are done"
    finish(world, (1,), done=True)
    assert world.view.outcome.state == "succeeded"


def test_done_marks_alone_are_no_success() -> None:
    world = training_world()
    finish(world, (0, 1), done=True)
    world.act()
    assert world.view.outcome.state == "none"


def test_after_success_nothing_is_a_fault_and_all_stay_until_told() -> None:
    world = training_world()
    finish(world, (0, 1), done=True)
    world.store.finished = True
    world.act()
    for slot in (0, 1):
        world.end_launcher(world.agents[f"pod-{slot}"], 0)
    world.kill_control()
    world.pass_time(10.0)
    assert world.view.faults == ()
    assert states(world) == {0: "train", 1: "train", 2: "park"}
    world.direct(stop="now")
    assert states(world) == {0: "exit", 1: "exit", 2: "exit"}


def test_ranks_that_end_with_0_without_done_marks_are_one_fault_that_says_what_to_do() -> None:
    world = training_world()
    world.store.finished = True
    for slot in (0, 1):
        world.run(1.0)
        assert world.view.faults == ()
        world.end_launcher(world.agents[f"pod-{slot}"], 0)
    world.run(1.0)
    world.kill_control(exit_code=0)
    world.run(1.0)
    assert world.view.outcome.state == "none"
    (fault,) = world.view.faults
    # Its cure is a new run: this one is over for NVRx, no pod is to blame.
    assert (fault.kind, fault.slot) == ("control", -1)
    assert "rtj_trainer.done()" in fault.message
    assert world.store.launches == {0: 1, 1: 1}


def test_a_launcher_that_ends_with_0_before_the_others_is_told_what_to_do() -> None:
    world = training_world()
    world.end_launcher(world.agents["pod-0"], 0)
    world.run(1.0)
    (fault,) = world.view.faults
    assert fault.kind == "launcher"
    assert "rtj_trainer.done()" in fault.message


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(-9, "ended with -9", id="killed"),
        pytest.param(0, "closed the rendezvous for good", id="NVRx ended it"),
        pytest.param(None, "ended with its container", id="nobody saw how"),
    ],
)
def test_the_end_of_nvrx_control_is_told_in_words(code: int | None, text: str) -> None:
    world = training_world()
    world.kill_control(code)
    world.settle()
    (fault,) = world.view.faults
    assert text in fault.message


def test_saved_when_every_rank_saved_after_stop() -> None:
    world = training_world(processes_per_node=2)
    world.direct(stop="save")
    assert states(world) == {0: "leave", 1: "leave", 2: "park"}
    finish(world, (0,), saved=True)
    assert world.view.outcome.state == "none"
    finish(world, (1,), saved=True)
    assert world.view.outcome.state == "saved"
    world.pass_time(5.0)
    assert world.view.outcome.state == "saved"


def test_stopped_when_there_is_nothing_to_save() -> None:
    world = World()
    world.direct()
    world.connect(0)
    world.run(1.0)
    world.direct(stop="save")
    world.pass_time(3.0)
    assert world.view.outcome.state == "stopped"


def test_a_rank_that_lives_is_waited_for() -> None:
    world = training_world()
    world.direct(stop="save")
    finish(world, (0,), saved=True)
    world.pass_time(60.0)
    assert world.view.outcome.state == "none", "the operator's deadline ends it"


def test_stopped_when_a_worker_died_before_it_could_save() -> None:
    world = training_world()
    world.direct(stop="save")
    finish(world, (0,), saved=True)
    world.kill(world.agents["pod-1"])
    world.pass_time(3.0)
    assert world.view.outcome.state == "stopped"
    assert "1 ranks saved" in world.view.outcome.message


def test_refused_when_a_launcher_says_do_not_restart() -> None:
    world = training_world()
    world.end_launcher(world.agents["pod-1"], 93, "no progress")
    world.run(1.0)
    assert (world.view.outcome.state, world.view.outcome.message) == ("refused", "no progress")
    assert world.view.faults == ()


def test_a_new_run_forgets_the_outcome() -> None:
    world = training_world()
    world.end_launcher(world.agents["pod-1"], 93)
    world.run(1.0)
    world.direct(run=2)
    world.run(2.0)
    assert world.view.outcome.state == "none"
    assert world.members() == {0: ("pod-0", 0), 1: ("pod-1", 1)}


def test_the_outcome_survives_a_restart_of_the_coordinator() -> None:
    world = training_world()
    finish(world, (0, 1), done=True)
    world.store.finished = True
    world.act()
    world.restart_coordinator()
    world.kill_control()
    world.pass_time(10.0)
    assert world.view.outcome.state == "succeeded"
    assert world.view.faults == ()


def test_a_suspended_job_s_stopping_pods_get_leave_and_not_exit() -> None:
    world = training_world()
    world.direct(stop="save")
    world.agents["pod-1"].terminating = True
    world.pass_time(0.4)
    assert states(world)[1] == "leave"
