"""`python -m rtj_trainer.beats` in a worker pod: one line a rank, for the engineer on call."""

import sys

from rtj_trainer.beats import BeatReader, BeatRecord, shm_dir

WORDS = "RANK LOCAL PID ROUND STEP PHASE AGE CHECKPOINT RESTARTS STATE"
HEADER = tuple(WORDS.split())


def row(record: BeatRecord) -> tuple[str, ...]:
    """One rank's cells under HEADER."""
    state = "saved" if record.saved else "done" if record.done else record.error or "-"
    return (
        *map(str, (record.rank, record.local_rank, record.pid, record.round, record.step)),
        record.phase or "-",
        f"{record.age_seconds():.1f}s",
        str(record.checkpoint_step),
        str(record.iteration),
        state,
    )


def main() -> None:
    """Print the table of this pod's training processes."""
    rows = [HEADER, *map(row, BeatReader(shm_dir()).read())]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(HEADER))]
    for cells in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


if __name__ == "__main__":
    main()
