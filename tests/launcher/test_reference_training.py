"""The reference trainer under the stock ft_launcher, through every fault that it lives through."""

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from rtj_trainer.beats import BeatReader, BeatRecord, fault_marks
from rtj_trainer.checkpoint import folder
from tests.ports import free_port

_STEP = re.compile(r"rank=0 step=(\d+) loss=(\S+) .*round=(\d+) iteration=(\d+)")
_STEPS = 14
_WAIT_SECONDS = 240


@dataclass(frozen=True)
class Line:
    """One step's line of rank 0."""

    step: int
    loss: str
    round: int
    iteration: int


@dataclass(frozen=True)
class Ended:
    """A training that has ended."""

    exit_code: int
    output: str
    shm: Path
    checkpoints: Path

    def lines(self) -> list[Line]:
        found = _STEP.findall(self.output)
        return [Line(int(step), loss, int(round_), int(it)) for step, loss, round_, it in found]

    def records(self) -> tuple[BeatRecord, ...]:
        return BeatReader(self.shm).read()


def _command() -> list[str]:
    return [
        str(Path(sys.executable).with_name("ft_launcher")),
        "--nnodes=1",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{free_port()}",
        "--rdzv-id=reference",
        "--local-addr=127.0.0.1",
        "--monitor-interval=0.1",
        "--max-restarts=10",
        "--ft-max-no-progress-cycles=0",
        "--workers-stop-timeout=3",
        "--ft-initial-rank-heartbeat-timeout=120",
        "--ft-rank-heartbeat-timeout=60",
        "--ft-gpu-memory-reclaim-timeout=0",
        "-m",
        "rtj_trainer.reference",
        f"--steps={_STEPS}",
        "--save-every=2",
        "--dim=64",
        "--layers=2",
        "--seq=16",
        "--batch=2",
    ]


def _train(root: Path, fault: str = "") -> Ended:
    """Run a training to its end."""
    root.mkdir()
    environment = {
        "RTJ_JOB_NAME": "reference",
        "RTJ_JOB_UID": "uid",
        "RTJ_DEVICE": "cpu",
        "RTJ_SHM_DIR": str(root / "shm"),
        "RTJ_CHECKPOINT_DIR": str(root / "checkpoints"),
        "RTJ_FAULT": fault,
        "OMP_NUM_THREADS": "1",
    }
    with (root / "output").open("wb") as output:
        process = subprocess.Popen(
            _command(), stdout=output, stderr=output, env=os.environ | environment, cwd=root
        )
        try:
            code = process.wait(_WAIT_SECONDS)
        finally:
            _end(process)
    text = (root / "output").read_text(errors="replace")
    print(text[-6000:])
    return Ended(code, text, root / "shm", root / "checkpoints")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for one in [*psutil.Process(process.pid).children(recursive=True), process]:
        one.kill()
    process.wait()


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Loss of each step of a training that nothing happened to."""
    ended = _train(tmp_path_factory.mktemp("golden") / "run")
    assert ended.exit_code == 0
    losses = {line.step: line.loss for line in ended.lines()}
    assert sorted(losses) == list(range(1, _STEPS + 1))
    return losses


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The same training with an exception in each rank, a hang, and a killed rank 0."""
    root = tmp_path_factory.mktemp("interrupted") / "run"
    return _train(root, fault="3:1:raise,5:0:raise,7:1:hang,11:0:kill")


def test_loss_of_every_step_is_that_of_an_uninterrupted_training(
    golden: dict[int, str], interrupted: Ended
):
    assert interrupted.exit_code == 0
    lines = interrupted.lines()
    assert {line.step for line in lines} == set(golden)
    assert [line.loss for line in lines] == [golden[line.step] for line in lines]


def test_exceptions_and_hangs_restart_in_the_process_a_kill_in_the_job(interrupted: Ended):
    lives = [(line.round, line.iteration) for line in interrupted.lines()]
    assert sorted(set(lives)) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    marks = fault_marks(interrupted.shm)
    want = [("raise", 1), ("raise", 0), ("hang", 1), ("kill", 0)]
    assert [(mark.kind, mark.rank) for mark in marks] == want
    # Rank 1 was restarted in its process, so all but the last are of two processes only.
    assert marks[0].pid == marks[2].pid
    assert marks[1].pid == marks[3].pid


def test_no_restart_costs_more_than_the_steps_since_the_last_checkpoints(interrupted: Ended):
    steps = [line.step for line in interrupted.lines()]
    back = [before + 1 - after for before, after in itertools.pairwise(steps)]
    assert max(back) <= 4, "two saves of two steps: one may still be on its way"


def test_finished_training_leaves_done_marks_and_two_whole_checkpoints(interrupted: Ended):
    records = interrupted.records()
    assert [record.rank for record in records] == [0, 1]
    for record in records:
        assert (record.done, record.saved, record.step) == (True, False, _STEPS)
        assert (record.round, record.iteration, record.checkpoint_step) == (1, 0, _STEPS)
    found = folder.scan(interrupted.checkpoints)
    assert [checkpoint.step for checkpoint in found.complete] == [_STEPS, _STEPS - 2]
    assert found.damaged == ()
    assert not list(interrupted.checkpoints.glob("*.tmp-*"))
