"""Faults on purpose happen where and when they are asked for, and once."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtj_trainer import faults
from rtj_trainer.beats import BeatRecord, BeatWriter, fault_marks
from rtj_trainer.faults import Fault, InjectedFault, Kind


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rank 2 of a job; its shared memory folder."""
    monkeypatch.setenv("RTJ_SHM_DIR", str(tmp_path / "shm"))
    monkeypatch.setenv("RTJ_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("RTJ_JOB_UID", "uid")
    monkeypatch.setenv("RANK", "2")
    return tmp_path / "shm"


def test_text_is_a_list_of_faults():
    want = (Fault(5, 2, Kind.RAISE), Fault(7, 0, Kind.KILL))
    assert faults.parse("5:2:raise, 7:0:kill,") == want


@pytest.mark.parametrize("text", ["5:2", "five:2:raise", "5:2:explode", "5:2:raise:now"])
def test_wrong_text_is_refused_with_what_would_be_right(text: str):
    with pytest.raises(ValueError, match="is not STEP:RANK:KIND with KIND one of raise, kill"):
        faults.parse(text)


def test_fault_happens_at_its_step_once_in_a_job(job: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RTJ_FAULT", "5:2:raise")
    faults.fire_due(4)
    with pytest.raises(InjectedFault, match="rank 2 after step 5"):
        faults.fire_due(5)
    faults.fire_due(5)
    (mark,) = fault_marks(job)
    assert (mark.kind, mark.rank, mark.step) == ("raise", 2, 5)

    monkeypatch.setenv("RTJ_JOB_UID", "another job on the same folder")
    with pytest.raises(InjectedFault):
        faults.fire_due(5)


@pytest.mark.usefixtures("job")
def test_fault_of_another_rank_does_not_happen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RTJ_FAULT", "5:1:raise")
    faults.fire_due(5)


def test_ordered_fault_happens_at_the_next_step_once(job: Path):
    BeatWriter(job, BeatRecord(local_rank=0, rank=2))
    faults.main(["raise", "--rank", "2"])
    with pytest.raises(InjectedFault, match="rank 2 after step 9"):
        faults.fire_due(9)
    faults.fire_due(10)


def test_order_without_a_rank_goes_to_the_lowest_of_the_pod(job: Path):
    for local_rank, rank in enumerate((2, 3)):
        BeatWriter(job, BeatRecord(local_rank=local_rank, rank=rank))
    faults.main(["raise"])
    with pytest.raises(InjectedFault):
        faults.fire_due(1)


def test_order_for_a_rank_elsewhere_is_refused(job: Path):
    BeatWriter(job, BeatRecord(local_rank=0, rank=2))
    with pytest.raises(SystemExit, match=r"rank 7 is not in this pod; its ranks are \[2\]"):
        faults.main(["kill", "--rank", "7"])


@pytest.mark.parametrize(
    ("kind", "want"),
    [(Kind.KILL, -signal.SIGKILL), (Kind.EXIT, 1), (Kind.REFUSE, 93)],
)
def test_process_ends_as_asked_and_leaves_its_mark(job: Path, kind: Kind, want: int):
    faults.order(job, kind, 2)
    script = "from rtj_trainer import faults; faults.fire_due(3)"
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == want
    (mark,) = fault_marks(job)
    assert (mark.kind, mark.step) == (kind, 3)
    assert f"fault on purpose: {kind} rank=2 step=3" in process.stdout
    assert f"unix={mark.unix:.3f}" in process.stdout


def test_command_line_needs_no_torch_and_warns_of_nothing(job: Path):
    BeatWriter(job, BeatRecord(local_rank=0, rank=2))
    script = "import sys, runpy; sys.argv = ['faults', 'raise']; "
    script += "runpy.run_module('rtj_trainer.faults', run_name='__main__'); "
    script += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", script], timeout=60, check=True)
    assert (job / "fault-rank-2").read_text() == "raise"
