"""Shared-memory records of the training processes: how the agent sees ranks without asking them.

A rank writes a few hundred bytes into its own file in a memory folder at each phase; the agent
reads them whenever it likes. Nobody waits for anybody, and a rank that hangs, is stopped or dies
leaves its last words. Torch-free: the agent imports this.
"""

from rtj_trainer.beats.flags import (
    FaultMark,
    clear_leave,
    fault_marks,
    leave_requested,
    mark_fault,
    request_leave,
)
from rtj_trainer.beats.reader import BeatReader
from rtj_trainer.beats.record import BeatRecord, shm_dir
from rtj_trainer.beats.writer import BeatWriter

__all__ = [
    "BeatReader",
    "BeatRecord",
    "BeatWriter",
    "FaultMark",
    "clear_leave",
    "fault_marks",
    "leave_requested",
    "mark_fault",
    "request_leave",
    "shm_dir",
]
