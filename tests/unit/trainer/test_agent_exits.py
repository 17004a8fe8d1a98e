"""Reports of failed training processes: cause told apart, numbers that never repeat."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rtj_trainer.agent import launcher_process
from rtj_trainer.agent.exits import ExitLog
from rtj_trainer.agent.launcher_process import LauncherProcess
from rtj_trainer.agent.memory import OomWatch
from rtj_trainer.nvrx.launcher_events import LauncherEvent, RankFailed


@pytest.fixture
async def launcher() -> AsyncIterator[LauncherProcess]:
    process = await LauncherProcess.start(1)
    following = asyncio.create_task(process.follow(lambda event: None))
    yield process
    process.kill()
    await following
    assert process.ended == -9


def _failed(pid: int, exit_code: int, message: str = "") -> RankFailed:
    return RankFailed(round=2, local_rank=0, rank=4, pid=pid, exit_code=exit_code, message=message)


async def test_hang_oom_and_exception_are_told_apart(tmp_path: Path, launcher: LauncherProcess):
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 1\n")
    told: list[int] = []
    log = ExitLog(OomWatch((counter,)), lambda: told.append(1))
    log.hung(11)
    await log.failed(_failed(11, -9), 3, launcher)
    await log.failed(_failed(12, -9), 3, launcher)
    counter.write_text("oom_kill 2\n")
    await log.failed(_failed(13, -9), 3, launcher)
    await log.failed(_failed(14, 1, "Traceback ...\nValueError: boom"), 3, launcher)

    reports = log.reports
    assert [(r.number, r.hang, r.out_of_memory) for r in reports] == [
        (1, True, False),
        (2, False, False),
        (3, False, True),
        (4, False, False),
    ]
    assert {(r.run, r.round, r.local_rank, r.rank) for r in reports} == {(3, 2, 0, 4)}
    assert reports[3].tail.endswith("ValueError: boom")
    assert len(told) == 4


async def test_hang_of_an_earlier_round_blames_no_new_process(
    tmp_path: Path, launcher: LauncherProcess
):
    log = ExitLog(OomWatch((tmp_path / "none",)), lambda: None)
    log.hung(11)
    log.new_round()
    await log.failed(_failed(11, -9), 3, launcher)
    assert not log.reports[0].hang


class Talkative(LauncherProcess):
    """A launcher whose ranks have said something before they ended."""

    async def rank_tail(self, local_rank: int) -> str:
        return "older words"


@pytest.mark.parametrize(
    ("exit_code", "want"),
    [
        pytest.param(-9, "", id="a killed process has no last words"),
        pytest.param(1, "older words", id="one that ended by itself has"),
    ],
)
async def test_last_words_are_of_processes_that_could_speak(
    tmp_path: Path, exit_code: int, want: str
):
    process = await Talkative.start(1)
    following = asyncio.create_task(process.follow(lambda event: None))
    log = ExitLog(OomWatch((tmp_path / "none",)), lambda: None)
    await log.failed(_failed(11, exit_code), 3, process)
    process.kill()
    await following
    assert log.reports[0].tail == want


@pytest.mark.parametrize(
    ("exit_code", "kills", "want"),
    [
        pytest.param(-9, 2, (True, ""), id="the OOM killer"),
        pytest.param(-9, 1, (False, ""), id="somebody else's SIGKILL"),
        pytest.param(1, 2, (False, "boom"), id="by itself"),
    ],
)
async def test_a_launcher_that_the_oom_killer_ended_is_told_as_such(
    tmp_path: Path, exit_code: int, kills: int, want: tuple[bool, str]
):
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 1\n")
    log = ExitLog(OomWatch((counter,)), lambda: None)
    counter.write_text(f"oom_kill {kills}\n")
    process = await Dying.start(1)
    following = asyncio.create_task(process.follow(lambda event: None))
    process.kill()
    await following
    end = log.launcher_ended(exit_code, process)
    assert (end.out_of_memory, end.tail) == want


class Dying(LauncherProcess):
    """A launcher that has said something before it ended."""

    def tail(self, limit: int) -> str:
        return "boom"


async def test_last_words_outlive_a_launcher_that_joins_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(launcher_process, "_MODULE", "tests.unit.trainer.failing_launcher")
    log = ExitLog(OomWatch((tmp_path / "none",)), lambda: None)
    process = await LauncherProcess.start(1)
    async with asyncio.TaskGroup() as reporting:

        def report(event: LauncherEvent) -> None:
            if isinstance(event, RankFailed):
                reporting.create_task(log.failed(event, 3, process))

        await process.follow(report)
    assert [report.tail for report in log.reports] == [f"failure {n}" for n in range(3)]


class Slow(LauncherProcess):
    """A launcher whose first rank's words are long in coming."""

    async def rank_tail(self, local_rank: int) -> str:
        await asyncio.sleep(0.05 if local_rank == 0 else 0)
        return f"words of {local_rank}"


async def test_of_two_that_fail_together_the_first_told_has_the_lower_number(tmp_path: Path):
    log = ExitLog(OomWatch((tmp_path / "none",)), lambda: None)
    process = await Slow.start(2)
    following = asyncio.create_task(process.follow(lambda event: None))
    second = RankFailed(round=2, local_rank=1, rank=5, pid=12, exit_code=1)
    await asyncio.gather(*(log.failed(e, 3, process) for e in (_failed(11, 1), second)))
    process.kill()
    await following
    assert [(r.number, r.local_rank) for r in log.reports] == [(1, 1), (2, 0)]
