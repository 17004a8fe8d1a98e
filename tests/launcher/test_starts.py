"""Starts that fail in a row, with the real launcher: told with their cause, and held back."""

from pathlib import Path

from tests.launcher.job import running_job

_WAIT_SECONDS = 120


async def test_loading_that_fails_is_repeated_at_once_and_then_held_back(tmp_path: Path):
    command = ("python", "-m", "tests.launcher.failing_start", "2", str(tmp_path))
    async with running_job(command, nodes=2, processes_per_node=1) as job:
        pods = {worker.uid for worker in job.workers.values()}
        await job.until_step_beyond(3, _WAIT_SECONDS)
        view = await job.operator.until(
            lambda view: all(fault.recovered_seconds is not None for fault in view.faults),
            _WAIT_SECONDS,
        )
        first, second = view.faults
        for fault in view.faults:
            assert (fault.kind, fault.rank, fault.before_step) == ("exit", 0, True)
            assert fault.message.rstrip().splitlines()[-1] == "OSError: storage is down"
            assert fault.stalled_seconds == -1, "no step was made before"
        assert first.backoff_seconds == 0
        assert 3.75 <= second.backoff_seconds <= 5
        assert second.resumed_seconds is not None
        assert second.resumed_seconds > second.backoff_seconds
        assert _failures(tmp_path) == 2
        assert {worker.pod_uid for worker in view.workers if worker.position >= 0} == pods


def _failures(folder: Path) -> int:
    return len(list(folder.glob("failed-*")))
