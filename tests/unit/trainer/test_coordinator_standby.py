"""A coordinator that stands by: what it takes in, and how it goes on when it is promoted."""

from rtj_api.messages import LauncherState, RankBeat
from rtj_trainer.coordinator.directives import directive_for
from tests.unit.trainer.world import STORE_HOST, World


def standby_world(slots: int = 3) -> World:
    """Two positions, held by the pods of slots 1 and 2 at steps 30 and 31; the standby hears all.

    The coordinator that counts is not in this world.
    """
    world = World(nodes=2, slots=slots)
    world.direct(active=False)
    for slot in range(slots):
        agent = world.connect(slot)
        position = slot - 1 if slots > 2 else slot
        if position >= 0:
            agent.launcher = LauncherState(
                state="training", run=1, position=position, launch=0, pid=1
            )
            agent.ranks = (
                RankBeat(local_rank=0, alive=True, step=30 + position, checkpoint_step=25),
            )
    world.pass_time(1.0)
    return world


def test_standby_directs_nobody_and_starts_nothing() -> None:
    world = standby_world()
    world.run(3.0)
    workers = list(world.core.table)
    assert [directive_for(world.core, worker, STORE_HOST) for worker in workers] == [None] * 3
    assert world.core.control_request is None
    assert not world.core.store_actions
    view = world.view
    assert (view.standby, view.run, view.faults, view.outcome.state) == (True, 0, (), "none")
    assert [(w.pod_uid, w.position) for w in view.workers] == [
        ("pod-0", -1),
        ("pod-1", 0),
        ("pod-2", 1),
    ]


def test_training_alone_changes_nothing_in_a_standby_view() -> None:
    world = standby_world()
    before = world.view
    world.step(40)
    assert world.view == before


def test_silence_of_the_coordinator_is_shown_once_it_is_more_than_a_missed_repetition() -> None:
    world = standby_world()
    told = {0.9: 0.0, 2.5: 2.5, -1.0: -1.0}
    for said, want in told.items():
        world.beat(world.agents["pod-1"], obeys_incarnation=0, coordinator_silent_seconds=said)
        worker = next(w for w in world.view.workers if w.pod_uid == "pod-1")
        assert (worker.obeys_incarnation, worker.coordinator_silent_seconds) == (0, want)


def test_promoted_it_keeps_every_position_and_knows_how_far_training_was() -> None:
    world = standby_world()
    world.direct(run=2, active=True)
    assert world.core.progress.highest_step == 31
    assert world.core.progress.checkpoint_step == 25
    world.run(3.0)
    assert world.holders == {0: "pod-1", 1: "pod-2"}
    assert {agent.launcher.run for agent in world.agents.values() if agent.ranks} == {2}
    assert world.view.ranks_training == 2
    assert world.view.faults == ()


def test_promoted_it_gives_a_position_to_a_spare_for_a_worker_that_has_just_fallen_silent() -> None:
    world = standby_world()
    world.agents["pod-2"].frozen = True
    world.pass_time(2.6)
    world.direct(run=2, active=True)
    world.run(2.0)
    assert world.holders == {0: "pod-1", 1: "pod-0"}


def test_promoted_without_a_spare_it_waits_for_a_silent_worker() -> None:
    world = standby_world(slots=2)
    world.agents["pod-1"].frozen = True
    world.pass_time(2.6)
    world.direct(run=2, active=True)
    world.agents["pod-1"].frozen = False
    world.run(3.0)
    assert world.holders == {0: "pod-0", 1: "pod-1"}
    assert world.view.ranks_training == 2
