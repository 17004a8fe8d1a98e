"""Files beside the records: the wish that the ranks save and leave, and the log of faults made
on purpose."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LEAVE: Final = "leave"
_FAULTS: Final = "faults.log"


@dataclass(frozen=True, slots=True)
class FaultMark:
    """A fault that a rank did to itself on purpose."""

    unix: float
    kind: str
    rank: int
    step: int
    pid: int


def request_leave(folder: Path) -> None:
    """Ask the ranks of this pod to save and leave; they all agree at a step's end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _LEAVE).touch()


def leave_requested(folder: Path) -> bool:
    """Whether the ranks of this pod are asked to save and leave."""
    return (folder / _LEAVE).exists()


def clear_leave(folder: Path) -> None:
    """Take the wish back; to be done before a launcher is started."""
    (folder / _LEAVE).unlink(missing_ok=True)


def mark_fault(folder: Path, mark: FaultMark) -> None:
    """Note a fault just before it happens: one line, one write, whole even if followed by death."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _FAULTS).open("a") as log:
        log.write(f"{mark.unix:.6f} {mark.kind} {mark.rank} {mark.step} {mark.pid}\n")


def fault_marks(folder: Path) -> tuple[FaultMark, ...]:
    """All faults noted in this folder, oldest first."""
    try:
        lines = (folder / _FAULTS).read_text().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(_parse(line) for line in lines)


def _parse(line: str) -> FaultMark:
    unix, kind, rank, step, pid = line.split()
    return FaultMark(float(unix), kind, int(rank), int(step), int(pid))
