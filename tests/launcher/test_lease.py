"""A coordinator that is away: who trains on without it, and who ends by himself.

The operator is away too: nobody says anything. Three jobs at once, because most of it is waiting.
"""

import asyncio
import signal
import time
from pathlib import Path

from tests.launcher.job import TRAIN, Job, poll_until, running_job

_WAIT_SECONDS = 120
_BEAT_TIMEOUT_SECONDS = 2.0
# Of the lease: two beat timeouts and 15 s.
_LEASE_SECONDS = 2 * _BEAT_TIMEOUT_SECONDS + 15.0


async def test_ranks_end_by_themselves_only_where_their_position_may_have_been_given_away():
    await asyncio.gather(
        _gang_trains_on_without_a_coordinator(),
        _lone_worker_trains_on_while_its_coordinator_restarts(),
        _lone_worker_ends_when_its_coordinator_is_silent(),
    )


async def _gang_trains_on_without_a_coordinator() -> None:
    async with running_job(
        TRAIN, nodes=2, processes_per_node=1, beat_timeout_seconds=_BEAT_TIMEOUT_SECONDS
    ) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        before = _ranks(job)
        job.processes["coordinator"].send_signal(signal.SIGSTOP)
        await _trains_for(job, _LEASE_SECONDS + 5)
        job.processes["coordinator"].send_signal(signal.SIGCONT)
        await job.until_step_beyond(job.view.highest_step + 10, _WAIT_SECONDS)
        assert _ranks(job) == before
        assert job.view.faults == ()


async def _lone_worker_trains_on_while_its_coordinator_restarts() -> None:
    async with running_job(
        TRAIN, nodes=1, processes_per_node=1, beat_timeout_seconds=_BEAT_TIMEOUT_SECONDS
    ) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        before = _ranks(job)
        job.processes["coordinator"].kill()
        job.processes["coordinator"].wait()
        await _trains_for(job, _LEASE_SECONDS + 5)
        job.start_coordinator()
        await job.until_step_beyond(job.view.highest_step + 10, _WAIT_SECONDS)
        assert _ranks(job) == before


async def _lone_worker_ends_when_its_coordinator_is_silent() -> None:
    async with running_job(
        TRAIN, nodes=1, processes_per_node=1, beat_timeout_seconds=_BEAT_TIMEOUT_SECONDS
    ) as job:
        await job.until_step_beyond(3, _WAIT_SECONDS)
        (rank,) = _ranks(job)
        job.processes["coordinator"].send_signal(signal.SIGSTOP)
        silent_at = time.monotonic()
        await poll_until(
            lambda: not Path(f"/proc/{rank}").exists(), _LEASE_SECONDS + 5, "end of the lone rank"
        )
        assert time.monotonic() - silent_at > _LEASE_SECONDS - 2
        assert "position may have been given away" in job.log("worker-0-0")
        job.processes["coordinator"].send_signal(signal.SIGCONT)
        await job.until_step_beyond(job.view.highest_step, _WAIT_SECONDS)


async def _trains_for(job: Job, seconds: float) -> None:
    """Steps go on for so long, whatever the coordinator does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        step = _lowest_step(job)
        await poll_until(lambda step=step: _lowest_step(job) > step, 20, f"step after {step}")


def _lowest_step(job: Job) -> int:
    return min(step for worker in job.workers.values() for step in worker.steps())


def _ranks(job: Job) -> list[int]:
    """Process ids of all ranks."""
    return [pid for worker in job.workers.values() for pid in worker.rank_processes().values()]
