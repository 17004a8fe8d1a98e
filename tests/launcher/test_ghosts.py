"""Launchers that join a round and die: NVRx never notices, the coordinator must."""

import asyncio
import os
import signal

from rtj_api import names
from rtj_trainer.nvrx.rendezvous import Rendezvous, Rounds
from rtj_trainer.nvrx.store import StoreClient
from tests.launcher.job import TRAIN, Job, Worker, ranks_by_position, running_job

_WAIT_SECONDS = 120


async def _left_alone(job: Job) -> None:
    """The pod of position 1 is dead, no spare is there, position 0 waits in the open round."""
    await job.until_step_beyond(3, _WAIT_SECONDS)
    assert ranks_by_position(job.view) == {0: "pod-0-0", 1: "pod-1-0"}
    job.workers.pop(1).kill()
    # No frame tells that a launcher has joined; the store does.
    store = await StoreClient.connect("127.0.0.1", int(job.environment[names.ENV_STORE_PORT]))
    try:
        rendezvous = Rendezvous(store, names.rendezvous_id(job.environment[names.ENV_JOB_UID], 1))
        async with asyncio.timeout(_WAIT_SECONDS):
            while not _alone(await rendezvous.read()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    finally:
        store.close()


def _alone(rounds: Rounds) -> bool:
    return rounds.open and [member.position for member in rounds.participants] == [0]


def _signal_all(worker: Worker, number: signal.Signals) -> None:
    for process in worker.below():
        process.send_signal(number)


async def test_a_launcher_that_died_in_an_open_round_is_taken_out_of_it():
    async with running_job(TRAIN, nodes=2, processes_per_node=1) as job:
        await _left_alone(job)
        os.kill(job.workers[0].launchers()[0], signal.SIGKILL)
        await job.operator.until(
            lambda view: any(w.position == 0 and w.launcher.launch == 1 for w in view.workers),
            _WAIT_SECONDS,
        )
        job.start_worker(1, incarnation=1)
        await job.direct()
        await job.until_step_beyond(job.view.highest_step, _WAIT_SECONDS)
        assert ranks_by_position(job.view) == {0: "pod-0-0", 1: "pod-1-1"}
        assert "position 0 launch 0 taken out of round 1: True" in job.log("coordinator")
        assert job.view.round == 1, "the ghost cost no round"


async def test_a_frozen_rank_0_does_not_keep_the_others_waiting_for_its_address():
    async with running_job(TRAIN, nodes=2, processes_per_node=1) as job:
        await _left_alone(job)
        # Long enough for the round to close with the frozen launcher in it.
        await job.direct(beat_timeout_seconds=20)
        frozen = job.workers[0]
        _signal_all(frozen, signal.SIGSTOP)
        job.start_worker(1, incarnation=1)
        await job.direct()
        await job.operator.until(lambda view: view.round == 1, _WAIT_SECONDS)
        job.start_worker(2)
        await job.direct()
        await job.until_step_beyond(job.view.highest_step, _WAIT_SECONDS)
        assert ranks_by_position(job.view) == {0: "pod-2-0", 1: "pod-1-1"}
        assert "rank 0 of round 1 is gone" in job.log("coordinator")
        assert [fault.kind for fault in job.view.faults] == ["worker", "worker"], job.view.faults
