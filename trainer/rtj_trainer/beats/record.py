"""Layout of one rank's record: two slots, each with a sequence number and a checksum.

The writer fills the slot that does not hold the newest record, so that a writer killed half way
leaves the previous record whole; the reader takes the valid slot with the higher number.
"""

import os
import struct
import time
import zlib
from pathlib import Path
from typing import Final

import msgspec

from rtj_api import names

MAX_PHASE_BYTES: Final = 32
MAX_ERROR_BYTES: Final = 1024

# The slot's head: checksum of all that follows it, then the sequence number.
_CRC: Final = struct.Struct("<I")
# seq, pid, rank, local_rank, round, run, iteration, error_iteration, flags, step,
# checkpoint_step, started_ns, updated_ns, phase, error
_BODY: Final = struct.Struct(f"<QIiiiiiiIqqQQ{MAX_PHASE_BYTES}s{MAX_ERROR_BYTES}s")
SLOT_BYTES: Final = _CRC.size + _BODY.size
FILE_BYTES: Final = 2 * SLOT_BYTES

_DONE: Final = 1
_SAVED: Final = 2
_SPEAKS: Final = 4
_PREFIX: Final = "rank-"
_SUFFIX: Final = ".beat"


class BeatRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one training process last said about itself.

    Times are CLOCK_MONOTONIC seconds of this host. A record outlives its process: whether the
    process lives is for the reader to find out from `pid`.
    """

    local_rank: int
    rank: int = 0
    pid: int = 0
    # Rendezvous round in which the process was started (TORCHELASTIC_RESTART_COUNT).
    round: int = 0
    run: int = 0
    # Steps completed since training began, -1 before the first.
    step: int = -1
    phase: str = ""
    # Newest checkpoint step known complete, -1 for none.
    checkpoint_step: int = -1
    # In-process restarts of this process so far.
    iteration: int = 0
    # Reached the end of training.
    done: bool = False
    # Saved and left at an agreed stop.
    saved: bool = False
    # The script itself beats: it says by `done` that it is, and not by its exit code alone.
    speaks: bool = False
    # Last exception that this rank itself raised, and the in-process iteration that it ended.
    error: str = ""
    error_iteration: int = -1
    started_monotonic: float = 0.0
    updated_monotonic: float = 0.0
    # Grows with each write, over all processes that had this local rank.
    sequence: int = 0

    def age_seconds(self, now: float | None = None) -> float:
        """Seconds since the last write; `now` is a time.monotonic() reading."""
        return max(0.0, (time.monotonic() if now is None else now) - self.updated_monotonic)


def shm_dir() -> Path:
    """The folder of the records: RTJ_SHM_DIR or the default."""
    return Path(os.environ.get(names.ENV_SHM_DIR, names.SHM_DIR))


def record_path(folder: Path, local_rank: int) -> Path:
    """The file of one local rank."""
    return folder / f"{_PREFIX}{local_rank}{_SUFFIX}"


def record_paths(folder: Path) -> list[Path]:
    """All record files of a folder; none when there is no such folder."""
    return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"))


def pack_into(slot: bytearray, record: BeatRecord) -> None:
    """Fill one slot; texts over their bound are cut."""
    flags = _DONE * record.done | _SAVED * record.saved | _SPEAKS * record.speaks
    _BODY.pack_into(
        slot,
        _CRC.size,
        record.sequence,
        record.pid,
        record.rank,
        record.local_rank,
        record.round,
        record.run,
        record.iteration,
        record.error_iteration,
        flags,
        record.step,
        record.checkpoint_step,
        int(record.started_monotonic * 1e9),
        int(record.updated_monotonic * 1e9),
        _cut(record.phase, MAX_PHASE_BYTES),
        _cut(record.error, MAX_ERROR_BYTES),
    )
    _CRC.pack_into(slot, 0, zlib.crc32(memoryview(slot)[_CRC.size :]))


def newest(data: bytes) -> BeatRecord | None:
    """The newest whole record of a file's content, None when neither slot is whole."""
    slots = (data[:SLOT_BYTES], data[SLOT_BYTES:FILE_BYTES])
    records = [record for slot in slots if (record := _unpack(slot)) is not None]
    return max(records, key=lambda record: record.sequence, default=None)


def _cut(text: str, limit: int) -> bytes:
    data = text.encode(errors="replace")
    return data if len(data) <= limit else data[:limit].decode(errors="ignore").encode()


def _unpack(slot: bytes) -> BeatRecord | None:
    if len(slot) != SLOT_BYTES or _CRC.unpack_from(slot)[0] != zlib.crc32(slot[_CRC.size :]):
        return None
    values = _BODY.unpack_from(slot, _CRC.size)
    sequence, pid, rank, local_rank, round_, run, iteration, error_iteration, flags = values[:9]
    step, checkpoint_step, started_ns, updated_ns, phase, error = values[9:]
    return BeatRecord(
        local_rank=local_rank,
        rank=rank,
        pid=pid,
        round=round_,
        run=run,
        step=step,
        phase=phase.rstrip(b"\0").decode(errors="replace"),
        checkpoint_step=checkpoint_step,
        iteration=iteration,
        done=bool(flags & _DONE),
        saved=bool(flags & _SAVED),
        speaks=bool(flags & _SPEAKS),
        error=error.rstrip(b"\0").decode(errors="replace"),
        error_iteration=error_iteration,
        started_monotonic=started_ns / 1e9,
        updated_monotonic=updated_ns / 1e9,
        sequence=sequence,
    )
