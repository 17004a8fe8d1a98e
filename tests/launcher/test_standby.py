"""The coordinator is lost as a whole, and the standby takes over: same pods, a new run.

The test plays the operator: it promotes when its own connection is lost, the standby is there, and
no worker that the standby hears still hears the coordinator.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psutil

from rtj_api.messages import JobView
from tests.launcher.job import TRAIN, Job, Worker, poll_until, ranks_by_position, running_job

_WAIT_SECONDS = 120
# Silence of the coordinator, as workers tell it, that counts.
_SILENT_SECONDS = 2.0
_BAR_SECONDS = 8.0
_BAR_WITH_A_WORKER_SECONDS = 10.0


@asynccontextmanager
async def _job_with_standby(nodes: int, spares: int) -> AsyncIterator[Job]:
    async with running_job(TRAIN, nodes=nodes, processes_per_node=1, spares=spares) as job:
        job.start_control(1)
        job.start_coordinator(1)
        await job.stand_by(1)
        assert job.standby is not None
        running = asyncio.create_task(job.standby.run())
        try:
            await job.standby.until(
                lambda view: view.standby and len(_hearing(view)) == nodes + spares, _WAIT_SECONDS
            )
            await job.until_step_beyond(3, _WAIT_SECONDS)
            workers = list(job.workers.values())
            await poll_until(lambda: all(map(_is_prepared, workers)), _WAIT_SECONDS, "launchers")
            yield job
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def _is_prepared(worker: Worker) -> bool:
    """Whether its next launcher has everything imported: it then holds a process to fork from."""
    newest = psutil.Process(worker.launchers()[-1])
    return len(worker.launchers()) == 1 + bool(worker.steps()) and bool(newest.children())


def _hearing(view: JobView) -> list[str]:
    """Pods that the standby hears and that hear the coordinator."""
    return [
        worker.pod_uid
        for worker in view.workers
        if worker.connected and 0 <= worker.coordinator_silent_seconds <= _SILENT_SECONDS
    ]


def _is_dead(process: psutil.Process) -> bool:
    # Its parent stands still and does not bury it.
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _is_lost(job: Job) -> bool:
    standby = job.standby
    assert standby is not None
    if job.operator.connected or not standby.connected or standby.view is None:
        return False
    heard = [w for w in standby.view.workers if w.connected and w.silent_seconds == 0]
    return bool(heard) and not _hearing(standby.view)


def _coordinator_pod(job: Job) -> list[psutil.Process]:
    tops = [psutil.Process(job.processes[name].pid) for name in ("coordinator", "control")]
    return [process for top in tops for process in (top, *top.children(recursive=True))]


def _signal_pod(job: Job, number: signal.Signals) -> None:
    for process in _coordinator_pod(job):
        process.send_signal(number)


async def _nothing() -> None:
    """Before the promotion."""


async def _fail_over(job: Job, before_promotion: Callable[[], Awaitable[None]] = _nothing) -> float:
    """Promote once the coordinator counts as lost; returns when the first new step was made."""
    started = time.monotonic()
    step, run = job.view.highest_step, job.directive.run
    await poll_until(lambda: _is_lost(job), _WAIT_SECONDS, "loss of the coordinator")
    lost = time.monotonic()
    await before_promotion()
    await job.promote()
    await job.until_step_beyond(step, _WAIT_SECONDS)
    took = time.monotonic() - started
    print(f"lost after {lost - started:.2f} s, new step after {took:.2f} s")
    assert (job.view.run, job.view.coordinator_incarnation) == (run + 1, 1)
    return took


async def test_killed_coordinator_pod_is_replaced_by_the_standby_in_the_same_pods():
    async with _job_with_standby(nodes=2, spares=0) as job:
        positions, agents = ranks_by_position(job.view), _agents(job)
        _signal_pod(job, signal.SIGKILL)
        assert await _fail_over(job) < _BAR_SECONDS
        assert ranks_by_position(job.view) == positions
        assert _agents(job) == agents


async def test_silent_coordinator_pod_is_replaced_and_directs_nobody_when_it_wakes():
    async with _job_with_standby(nodes=2, spares=0) as job:
        positions, agents = ranks_by_position(job.view), _agents(job)
        _signal_pod(job, signal.SIGSTOP)

        async def free_the_port() -> None:
            # Of two machines each has its own; here the store of the silent one is in the way.
            below = psutil.Process(job.processes["control"].pid).children(recursive=True)
            for process in below:
                process.kill()
            await poll_until(lambda: all(map(_is_dead, below)), 10, "end of the silent store")

        assert await _fail_over(job, free_the_port) < _BAR_SECONDS
        _signal_pod_if_there(job, signal.SIGCONT)
        step = job.view.highest_step
        await job.until_step_beyond(step + 30, _WAIT_SECONDS)
        assert ranks_by_position(job.view) == positions
        assert (job.view.run, job.view.in_job_restarts) == (2, 0)
        assert _agents(job) == agents


async def test_worker_lost_with_the_coordinator_is_replaced_by_the_spare_at_once():
    async with _job_with_standby(nodes=2, spares=1) as job:
        kept = ranks_by_position(job.view)[0]
        victim = next(w for w in job.workers.values() if w.uid == ranks_by_position(job.view)[1])
        _signal_pod(job, signal.SIGKILL)
        victim.kill()
        assert await _fail_over(job) < _BAR_WITH_A_WORKER_SECONDS
        assert ranks_by_position(job.view) == {0: kept, 1: "pod-2-0"}


async def test_standby_hears_that_the_coordinator_is_heard_while_only_the_operator_is_cut_off():
    async with _job_with_standby(nodes=1, spares=0) as job:
        assert job.standby is not None
        job.operator.cut_off()
        step = _step(job)
        await poll_until(lambda: _step(job) > step + 40, _WAIT_SECONDS, "steps without operator")
        assert job.standby.view is not None
        assert _hearing(job.standby.view) == ["pod-0-0"]


def _step(job: Job) -> int:
    return max(job.workers[0].steps(), default=-1)


def _agents(job: Job) -> dict[int, int]:
    return {slot: worker.process.pid for slot, worker in job.workers.items()}


def _signal_pod_if_there(job: Job, number: signal.Signals) -> None:
    for process in _coordinator_pod(job):
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue
