"""Shared-memory records: never torn, never lost, never misleading."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rtj_trainer.beats import (
    BeatReader,
    BeatRecord,
    BeatWriter,
    FaultMark,
    clear_leave,
    fault_marks,
    leave_requested,
    mark_fault,
    request_leave,
)
from rtj_trainer.beats.record import FILE_BYTES, SLOT_BYTES, record_path

# Writes as fast as it can, step and texts always of one number, so that a torn record shows.
_HAMMER = """
import sys, pathlib
from rtj_trainer.beats import BeatRecord, BeatWriter
writer = BeatWriter(pathlib.Path(sys.argv[1]), BeatRecord(local_rank=0))
step = 0
while True:
    step += 1
    writer.update(step=step, phase=str(step), error=str(step) * 100)
"""


def _is_whole(record: BeatRecord) -> bool:
    if record.step < 1:
        return record.error == ""
    return record.phase == str(record.step) and record.error == (str(record.step) * 100)[:1024]


def test_record_comes_back_as_written(tmp_path: Path):
    want = BeatRecord(
        local_rank=3, rank=11, pid=4711, round=2, run=5, step=-1, iteration=1, error_iteration=0
    )
    writer = BeatWriter(tmp_path, want)
    writer.update(step=7, phase="forward", checkpoint_step=4, done=True, saved=True, error="é\n")

    assert BeatReader(tmp_path).read() == (writer.record,)
    assert writer.record.step == 7
    assert writer.record.error == "é\n"
    assert (writer.record.done, writer.record.saved) == (True, True)


def test_age_is_time_since_the_last_write(tmp_path: Path):
    writer = BeatWriter(tmp_path, BeatRecord(local_rank=0))
    (record,) = BeatReader(tmp_path).read()
    assert record.age_seconds(writer.record.updated_monotonic + 2.5) == pytest.approx(2.5, abs=1e-3)
    assert record.age_seconds() < 5


def test_texts_over_their_bound_are_cut_between_characters(tmp_path: Path):
    BeatWriter(tmp_path, BeatRecord(local_rank=0, phase="p" * 99, error="x" + "é" * 2000))
    (record,) = BeatReader(tmp_path).read()
    assert record.phase == "p" * 32
    assert record.error == "x" + "é" * 511


def test_new_process_of_a_local_rank_keeps_nothing_of_the_old(tmp_path: Path):
    old = BeatWriter(tmp_path, BeatRecord(local_rank=0, pid=1))
    old.update(step=9, phase="forward", error="boom", done=True, checkpoint_step=8)
    BeatWriter(tmp_path, BeatRecord(local_rank=0, pid=2, round=1))

    (record,) = BeatReader(tmp_path).read()
    assert (record.pid, record.round, record.step, record.checkpoint_step) == (2, 1, -1, -1)
    assert (record.phase, record.error, record.done) == ("", "", False)
    assert record.sequence > old.record.sequence


def test_a_half_written_slot_leaves_the_previous_record(tmp_path: Path):
    writer = BeatWriter(tmp_path, BeatRecord(local_rank=0))
    writer.update(step=5)
    with record_path(tmp_path, 0).open("r+b") as file:
        file.seek(SLOT_BYTES * ((writer.record.sequence + 1) % 2))
        file.write(b"\xff" * 100)

    (record,) = BeatReader(tmp_path).read()
    assert record.step == 5


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty file"),
        pytest.param(b"\0" * FILE_BYTES, id="file just created"),
        pytest.param(b"\xff" * 17, id="file of something else"),
    ],
)
def test_file_without_a_record_is_no_record(tmp_path: Path, content: bytes):
    record_path(tmp_path, 0).write_bytes(content)
    BeatWriter(tmp_path, BeatRecord(local_rank=1))
    assert [record.local_rank for record in BeatReader(tmp_path).read()] == [1]


def test_missing_folder_has_no_records(tmp_path: Path):
    assert BeatReader(tmp_path / "absent").read() == ()


def test_writer_from_the_launchers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    environment = {"LOCAL_RANK": "1", "RANK": "5", "TORCHELASTIC_RESTART_COUNT": "3"}
    environment |= {"RTJ_RUN": "2", "RTJ_SHM_DIR": str(tmp_path / "shm")}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    record = BeatWriter.from_env().record
    assert (record.local_rank, record.rank, record.round, record.run) == (1, 5, 3, 2)
    assert record.pid == os.getpid()
    assert BeatReader(tmp_path / "shm").read() == (record,)


def test_reader_never_sees_a_torn_record_and_a_killed_writer_leaves_a_whole_one(tmp_path: Path):
    reader = BeatReader(tmp_path)
    hammer = subprocess.Popen([sys.executable, "-c", _HAMMER, str(tmp_path)])
    try:
        seen = _read_until_steps_grow(reader, 50)
    finally:
        hammer.send_signal(signal.SIGKILL)
        hammer.wait(10)
    assert all(_is_whole(record) for record in seen)
    (last,) = reader.read()
    assert _is_whole(last)
    assert last.step >= seen[-1].step


def _read_until_steps_grow(reader: BeatReader, times: int) -> list[BeatRecord]:
    seen: list[BeatRecord] = []
    deadline = time.monotonic() + 30
    while len(seen) < times:
        assert time.monotonic() < deadline, f"only {len(seen)} different records"
        for record in reader.read():
            if record.step > 0 and (not seen or record.step > seen[-1].step):
                seen.append(record)
    return seen


def test_leave_is_asked_and_taken_back(tmp_path: Path):
    folder = tmp_path / "made by whoever comes first"
    assert not leave_requested(folder)
    request_leave(folder)
    assert leave_requested(folder)
    clear_leave(folder)
    clear_leave(folder)
    assert not leave_requested(folder)


def test_fault_marks_are_kept_in_order(tmp_path: Path):
    assert fault_marks(tmp_path) == ()
    marks = (FaultMark(1.5, "raise", 1, 3, 77), FaultMark(2.25, "kill", 0, 9, 78))
    for mark in marks:
        mark_fault(tmp_path, mark)
    assert fault_marks(tmp_path) == marks
