"""The agent's side of the shared-memory records."""

from pathlib import Path
from typing import Final

from rtj_trainer.beats.record import FILE_BYTES, BeatRecord, newest, record_paths

# Both slots look torn only while the writer laps the reader.
_ATTEMPTS: Final = 5


class BeatReader:
    """Reads all records of a folder; holds nothing open, so ranks and folder may come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> tuple[BeatRecord, ...]:
        """The newest whole record of each local rank, ascending, those of dead processes too."""
        records = [_read(path) for path in record_paths(self._folder)]
        return tuple(
            sorted((r for r in records if r is not None), key=lambda record: record.local_rank)
        )


def _read(path: Path) -> BeatRecord | None:
    for _ in range(_ATTEMPTS):
        try:
            with path.open("rb", buffering=0) as file:
                record = newest(file.read(FILE_BYTES))
        except OSError:
            return None
        if record is not None:
            return record
    return None
