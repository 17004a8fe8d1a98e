"""The one-line API: seen inside a job, silent outside."""

from pathlib import Path

import pytest

import rtj_trainer
from rtj_api import names
from rtj_trainer import rank
from rtj_trainer.beats import BeatReader, BeatRecord, request_leave


@pytest.fixture(autouse=True)
def _fresh_process():
    rank._only_rank.cache_clear()
    yield
    rank._only_rank.cache_clear()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process as rank 3 of a job, not under ft_launcher."""
    monkeypatch.setenv("RTJ_SHM_DIR", str(tmp_path))
    monkeypatch.setenv("RTJ_JOB_NAME", "llama")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.delenv("FT_RANK_MONITOR_IPC_SOCKET", raising=False)
    return tmp_path


def _record(folder: Path) -> BeatRecord:
    (record,) = BeatReader(folder).read()
    return record


def test_outside_a_job_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RTJ_SHM_DIR", "RTJ_JOB_NAME", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    rtj_trainer.beat(step=1, phase="forward", checkpoint_step=0)
    rtj_trainer.done()
    assert not rtj_trainer.leave_wanted()
    assert rank.current() is None


def test_beat_says_only_what_it_is_given(job: Path):
    rtj_trainer.beat(step=4, checkpoint_step=2)
    rtj_trainer.phase("backward")
    record = _record(job)
    assert (record.rank, record.local_rank) == (3, 1)
    assert (record.step, record.checkpoint_step, record.phase) == (4, 2, "backward")


def test_done_is_a_mark_of_its_own(job: Path):
    rtj_trainer.beat(step=4)
    assert not _record(job).done
    rtj_trainer.done()
    assert (_record(job).done, _record(job).saved) == (True, False)


def test_leaving_is_no_success(job: Path):
    request_leave(job)
    assert rtj_trainer.leave_wanted()
    assert rtj_trainer.should_leave()
    with pytest.raises(SystemExit) as ended:
        rtj_trainer.leave()
    assert ended.value.code == names.EXIT_SAVED
    assert (_record(job).done, _record(job).saved) == (False, True)


def test_entering_again_undoes_steps_and_keeps_the_error(job: Path):
    rtj_trainer.beat(step=9, checkpoint_step=5)
    this = rank.current()
    assert this is not None
    this.failed(ValueError("bad batch"), 0)
    this.entered(1)
    record = _record(job)
    assert (record.step, record.iteration, record.checkpoint_step) == (-1, 1, 5)
    assert (record.error, record.error_iteration) == ("ValueError: bad batch", 0)
