"""Faults with the real launcher: who goes on in his process, who in his pod, who takes over.

Bounds are wide: the suite must hold on a busy machine. The bench measures.
"""

import asyncio
import os
import signal
from pathlib import Path

import psutil

from rtj_api.messages import FaultReport, JobView
from rtj_trainer import faults
from tests.launcher.job import TRAIN, Job, Worker, poll_until, ranks_by_position, running_job

_WAIT_SECONDS = 120


async def _new_step(job: Job) -> None:
    """Until training is beyond the highest step so far."""
    await job.until_step_beyond(job.view.highest_step, _WAIT_SECONDS)


async def _trains_on(job: Job, positions: dict[int, str]) -> None:
    """Until these pods hold the positions and make a new step."""
    await job.operator.until(lambda view: ranks_by_position(view) == positions, _WAIT_SECONDS)
    await _new_step(job)
    assert ranks_by_position(job.view) == positions


def _pids(job: Job) -> dict[tuple[int, int], int]:
    return {
        (slot, local): pid
        for slot, worker in job.workers.items()
        for local, pid in worker.rank_processes().items()
    }


async def test_faults_below_the_pod_one_after_the_other():
    """In one job, because starting it takes longest."""
    async with running_job(TRAIN, nodes=2, processes_per_node=1) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        positions = ranks_by_position(job.view)
        await _exception(job)
        await _coordinator_lost(job)
        await _rank_killed(job)
        await _launcher_killed(job)
        await _control_lost(job)
        assert ranks_by_position(job.view) == positions


async def _exception(job: Job) -> None:
    before = _pids(job)
    faults.order(job.workers[1].shm, faults.Kind.RAISE, 1)
    fault = await _next_fault(job)
    assert fault.kind == "exception"
    assert "injected in rank 1" in fault.message
    await _new_step(job)
    assert _pids(job) == before


async def _coordinator_lost(job: Job) -> None:
    before = _pids(job)
    job.processes["coordinator"].kill()
    job.processes["coordinator"].wait()
    job.start_coordinator()
    await _new_step(job)
    assert _pids(job) == before


async def _rank_killed(job: Job) -> None:
    before = _pids(job)
    os.kill(before[1, 0], signal.SIGKILL)
    fault = await _next_fault(job)
    assert (fault.kind, fault.exit_code, fault.position) == ("exit", -9, 1)
    await _new_step(job)
    assert not set(before.values()) & set(_pids(job).values())


async def _launcher_killed(job: Job) -> None:
    worker = job.workers[0]
    # The next one is imported already: it is prepared once training has made a step.
    await poll_until(lambda: len(worker.launchers()) == 2, _WAIT_SECONDS, "prepared launcher")
    rank = _pids(job)[0, 0]
    os.kill(worker.launchers()[0], signal.SIGKILL)
    await poll_until(lambda: not _lives(rank), 5, "rank of a dead launcher gone")
    fault = await _next_fault(job)
    assert (fault.kind, fault.exit_code) == ("launcher", -9)
    assert "(SIGKILL)" in fault.message, "what it printed before is not why it ended"
    await _new_step(job)


async def _control_lost(job: Job) -> None:
    below = psutil.Process(job.processes["control"].pid).children(recursive=True)
    below[-1].kill()
    await job.operator.until(lambda view: view.control == "dead", _WAIT_SECONDS)
    await job.direct(run=2)
    await _new_step(job)
    assert job.view.run == 2


async def test_a_frozen_control_ends_its_run_and_training_goes_on_in_the_next():
    async with running_job(TRAIN, nodes=1, processes_per_node=1) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        for process in psutil.Process(job.processes["control"].pid).children(recursive=True):
            process.send_signal(signal.SIGSTOP)
        assert (await _next_fault(job)).kind == "control"
        await job.direct(run=2)
        await _new_step(job)
        assert job.view.run == 2

        # What the kubelet's probe does to a container that stands still as a whole.
        control = psutil.Process(job.processes["control"].pid)
        for process in (control, *control.children(recursive=True)):
            process.send_signal(signal.SIGSTOP)
        assert (await _next_fault(job)).kind == "control"
        await job.direct(run=3)
        control.kill()
        job.processes["control"].wait()
        job.start_control()
        await _new_step(job)
        assert job.view.run == 3


async def _next_fault(job: Job) -> FaultReport:
    known = max((fault.number for fault in job.view.faults), default=0)

    def newer(view: JobView) -> list[FaultReport]:
        return [fault for fault in view.faults if fault.number > known]

    return newer(await job.operator.until(lambda view: bool(newer(view)), _WAIT_SECONDS))[0]


async def test_spare_takes_the_position_of_a_dead_pod_and_of_a_frozen_one():
    async with running_job(TRAIN, nodes=2, processes_per_node=1, spares=2) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        assert ranks_by_position(job.view) == {0: "pod-0-0", 1: "pod-1-0"}
        job.workers.pop(1).kill()
        await _trains_on(job, {0: "pod-0-0", 1: "pod-2-0"})

        frozen = job.workers[0]
        _signal_all(frozen, signal.SIGSTOP)
        await _trains_on(job, {0: "pod-3-0", 1: "pod-2-0"})

        # Back again it finds that its position is another's: it parks, training goes on.
        running = frozen.launchers()[0]
        _signal_all(frozen, signal.SIGCONT)
        await poll_until(lambda: not _lives(running), _WAIT_SECONDS, "thawed launcher gone")
        await _trains_on(job, {0: "pod-3-0", 1: "pod-2-0"})


async def test_silent_rank_is_ended_by_its_monitor_and_told_as_a_hang():
    command = ("python", "-m", "tests.launcher.silent_rank")
    async with running_job(command, nodes=1, processes_per_node=1, rank_timeout_seconds=2) as job:
        view = await job.operator.until(lambda view: bool(view.faults), _WAIT_SECONDS)
        assert (view.faults[0].kind, view.faults[0].exit_code) == ("hang", -9)
        assert view.faults[0].step == 3


async def test_stopped_pod_ends_at_once_and_a_spare_goes_on():
    async with running_job(TRAIN, nodes=1, processes_per_node=2, spares=1) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        stopped = job.workers.pop(0)
        stopped.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(stopped.process.wait, 10) == 0
        await _trains_on(job, {0: "pod-1-0"})


def _signal_all(worker: Worker, number: signal.Signals) -> None:
    for process in worker.below():
        process.send_signal(number)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
