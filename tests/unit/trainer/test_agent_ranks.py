"""The table of ranks: launcher's word, kernel's word and the ranks' own put together."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rtj_trainer.agent.ranks import RankTable
from rtj_trainer.beats import BeatRecord, BeatWriter
from rtj_trainer.nvrx.launcher_events import RanksFinished, Started


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def _started(round_: int, pid: int) -> Started:
    return Started(round=round_, group_rank=1, ranks={0: (2, pid)})


async def test_death_is_told_at_once_and_last_words_are_kept(
    tmp_path: Path, process: subprocess.Popen[bytes]
):
    changed = asyncio.Event()
    table = RankTable(tmp_path, changed.set)
    table.new_launch(run=5)
    table.started(_started(3, process.pid))
    writer = BeatWriter(tmp_path, BeatRecord(local_rank=0, rank=2, run=5, round=3))
    writer.update(step=7, phase="save", saved=True)

    process.kill()
    async with asyncio.timeout(5):
        await changed.wait()
    (beat,) = table.beats()
    assert (beat.alive, beat.rank, beat.step, beat.phase, beat.round) == (False, 2, 7, "save", 3)
    assert table.all_saved()
    table.close()
    assert table.beats()[0].saved


@pytest.mark.parametrize(("run", "round_"), [(4, 3), (5, 2)])
async def test_records_of_other_runs_and_rounds_do_not_count(
    tmp_path: Path, process: subprocess.Popen[bytes], run: int, round_: int
):
    table = RankTable(tmp_path, lambda: None)
    table.new_launch(run=5)
    BeatWriter(tmp_path, BeatRecord(local_rank=0, run=run, round=round_, step=99, done=True))
    table.started(_started(3, process.pid))
    table.refresh()
    (beat,) = table.beats()
    assert (beat.alive, beat.step, beat.done) == (True, -1, False)
    table.close()


@pytest.mark.parametrize(
    ("record", "round_", "done"),
    [
        pytest.param(None, 3, True, id="a program that writes no record"),
        pytest.param({}, 3, True, id="a script that never beats"),
        pytest.param({"step": 4, "speaks": True}, 3, False, id="one that does must say it"),
        pytest.param({"speaks": True, "done": True}, 3, True, id="and has"),
        pytest.param({"saved": True}, 3, False, id="saved to go on later"),
        pytest.param(None, 2, False, id="the end of an earlier round"),
    ],
)
async def test_exit_code_0_is_the_end_of_a_script_that_never_speaks(
    tmp_path: Path,
    process: subprocess.Popen[bytes],
    record: dict[str, Any] | None,
    round_: int,
    done: bool,
):
    table = RankTable(tmp_path, lambda: None)
    table.new_launch(run=5)
    table.started(_started(3, process.pid))
    if record is not None:
        writer = BeatWriter(tmp_path, BeatRecord(local_rank=0, rank=2, run=5, round=3))
        writer.update(**record)
    table.finished(RanksFinished(round=round_))
    assert (table.all_done(), table.beats()[0].done) == (done, done)
    table.close()


async def test_resuming_is_not_a_step(tmp_path: Path, process: subprocess.Popen[bytes]):
    table = RankTable(tmp_path, lambda: None)
    table.new_launch(run=1)
    assert not table.all_stepped()
    table.started(_started(0, process.pid))
    writer = BeatWriter(tmp_path, BeatRecord(local_rank=0, run=1))
    for step, stepped in ((-1, False), (40, False), (41, True)):
        writer.update(step=step)
        table.refresh()
        assert table.all_stepped() is stepped
    table.close()


async def test_process_that_died_before_it_was_watched_is_dead(
    tmp_path: Path, process: subprocess.Popen[bytes]
):
    process.kill()
    process.wait()
    table = RankTable(tmp_path, lambda: None)
    table.started(_started(0, process.pid))
    assert not table.beats()[0].alive
