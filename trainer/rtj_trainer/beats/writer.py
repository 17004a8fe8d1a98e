"""The rank's side of the shared-memory record: one writer per process, one thread."""

import mmap
import os
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rtj_api import names
from rtj_trainer.beats.record import (
    FILE_BYTES,
    SLOT_BYTES,
    BeatRecord,
    newest,
    pack_into,
    record_path,
    shm_dir,
)


class BeatWriter:
    """Owns the record of one local rank; opening it forgets what an earlier process said.

    Not thread-safe: the training thread alone writes. Safe against being killed or interrupted by
    an asynchronous exception between any two instructions: the last whole record stays.
    """

    def __init__(self, folder: Path, record: BeatRecord) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            record_path(folder, record.local_rank), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        try:
            os.ftruncate(descriptor, FILE_BYTES)
            self._map = mmap.mmap(descriptor, FILE_BYTES)
        finally:
            os.close(descriptor)
        before = newest(self._map[:])
        self._slot = bytearray(SLOT_BYTES)
        now = time.monotonic()
        self.record = replace(
            record, started_monotonic=now, sequence=0 if before is None else before.sequence
        )
        self.update()

    @classmethod
    def from_env(cls) -> "BeatWriter":
        """The writer of this process, from the launcher's and the agent's environment."""

        def number(variable: str) -> int:
            return int(os.environ.get(variable, "0"))

        return cls(
            shm_dir(),
            BeatRecord(
                local_rank=number("LOCAL_RANK"),
                rank=number("RANK"),
                pid=os.getpid(),
                round=number("TORCHELASTIC_RESTART_COUNT"),
                run=number(names.ENV_RUN),
            ),
        )

    def update(self, **changes: Any) -> None:
        """Write the record with `changes` to its fields and the present time."""
        record = replace(
            self.record,
            **changes,
            updated_monotonic=time.monotonic(),
            sequence=self.record.sequence + 1,
        )
        pack_into(self._slot, record)
        start = SLOT_BYTES * (record.sequence % 2)
        self._map[start : start + SLOT_BYTES] = self._slot
        # Only now: an interrupted write must be repeated in the same slot, never in the other,
        # which holds the last whole record.
        self.record = record
