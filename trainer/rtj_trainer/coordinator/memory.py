"""What the coordinator must still know when its container was restarted in the same pod.

The folder outlives the container, so training goes on undisturbed even while the operator is away,
faults keep their numbers (the operator tells new ones by them) and nothing is counted twice. Who
holds which position is not here: the agents say it.
"""

import contextlib
import logging
from pathlib import Path
from typing import Final

import msgspec

from rtj_api.messages import JobDirective, Outcome
from rtj_trainer.coordinator.faults import Incident
from rtj_trainer.coordinator.starts import Starts

_NAME: Final = "coordinator.json"
log = logging.getLogger("rtj.coordinator")


class Counts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Restarts, and up to which round and in-process iteration of the run they are counted."""

    in_process: int = 0
    in_job: int = 0
    run: int = -1
    round: int = -1
    ranks_round: int = -1
    iteration: int = 0


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The file's content."""

    directive: JobDirective | None = None
    counts: Counts = Counts()
    highest_step: int = -1
    checkpoint_step: int = -1
    # When the newest step that all ranks made was complete; 0: none was.
    stepped_unix: float = 0.0
    starts: Starts = Starts()
    fault_number: int = 0
    incidents: tuple[Incident, ...] = ()
    outcome: Outcome = Outcome()


def load(folder: Path) -> Memory:
    """What was kept, or nothing; a file that cannot be read is told and dropped."""
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=Memory)
    except FileNotFoundError:
        return Memory()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("%s is not readable, starting without it: %s", folder / _NAME, error)
        return Memory()


def save(folder: Path, memory: Memory) -> None:
    """Replace the file at once; a full or lost disk is told and costs only a restart's knowledge.

    Blocks; not for the event loop.
    """
    path = folder / _NAME
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_bytes(msgspec.json.encode(memory))
        temporary.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error)
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
