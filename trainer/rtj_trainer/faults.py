"""Faults on purpose, for tests and demonstrations: each happens once in a job.

Two ways: RTJ_FAULT=STEP:RANK:KIND[,...] in the job's environment, or, on a running pod,
`python -m rtj_trainer.faults KIND --rank RANK`, which the rank obeys at its next step.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from rtj_api import names
from rtj_trainer.beats import BeatReader, FaultMark, mark_fault, shm_dir

_ORDER_PREFIX: Final = "fault-rank-"
_DONE_FOLDER: Final = ".rtj-faults"
# Short, so that an in-process restart can interrupt it, as it can most Python code.
_HANG_SLEEP_SECONDS: Final = 0.2


class InjectedFault(Exception):
    """The exception of a fault made on purpose."""


class Kind(StrEnum):
    """What happens to the rank."""

    RAISE = "raise"  # an exception in the training function
    KILL = "kill"  # SIGKILL
    EXIT = "exit1"  # ends at once with exit code 1
    REFUSE = "exit93"  # ends at once with exit code 93: do not restart
    HANG = "hang"  # goes on living without doing anything
    STOP = "stop"  # SIGSTOP, as if the machine were frozen


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `kind` happens to `rank` when it has completed `step` steps."""

    step: int
    rank: int
    kind: Kind

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """From STEP:RANK:KIND; raises ValueError that says what is wrong."""
        try:
            step, rank, kind = text.strip().split(":")
            return cls(int(step), int(rank), Kind(kind))
        except ValueError as error:
            kinds = ", ".join(Kind)
            raise ValueError(
                f"{names.ENV_FAULT}: {text!r} is not STEP:RANK:KIND with KIND one of {kinds}"
            ) from error


def parse(text: str) -> tuple[Fault, ...]:
    """All faults of an RTJ_FAULT text; raises ValueError."""
    return tuple(Fault.parse(part) for part in text.split(",") if part.strip())


def fire_due(step: int) -> None:
    """Let happen what is due for this rank after `step` completed steps."""
    rank = int(os.environ.get("RANK", "0"))
    for kind in (*_planned(step, rank), *_ordered(rank)):
        _fire(kind, step, rank)


def order(folder: Path, kind: Kind, rank: int) -> None:
    """Have a rank of this pod fail at its next step."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{_ORDER_PREFIX}{rank}.{os.getpid()}"
    temporary.write_text(kind)
    temporary.rename(folder / f"{_ORDER_PREFIX}{rank}")


def _planned(step: int, rank: int) -> Iterable[Kind]:
    text = os.environ.get(names.ENV_FAULT)
    if not text:
        return ()
    due = (fault for fault in parse(text) if (fault.step, fault.rank) == (step, rank))
    return [fault.kind for fault in due if _first_time(fault)]


def _first_time(fault: Fault) -> bool:
    """Whether the fault has not happened in this job; from now on it has.

    The memory is beside the checkpoints, because it must outlive the pod.
    """
    folder = Path(os.environ.get(names.ENV_CHECKPOINT_DIR) or shm_dir()) / _DONE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    job = os.environ.get(names.ENV_JOB_UID, "job")
    try:
        (folder / f"{job}-{fault.step}-{fault.rank}-{fault.kind}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _ordered(rank: int) -> Iterable[Kind]:
    path = shm_dir() / f"{_ORDER_PREFIX}{rank}"
    try:
        text = path.read_text()
    except FileNotFoundError:
        return ()
    path.unlink()
    return [Kind(text)]


def _fire(kind: Kind, step: int, rank: int) -> None:
    now = time.time()
    mark_fault(shm_dir(), FaultMark(now, kind, rank, step, os.getpid()))
    print(  # noqa: T201 - the line in the pod's log that says when
        f"fault on purpose: {kind} rank={rank} step={step} pid={os.getpid()} unix={now:.3f}",
        flush=True,
    )
    match kind:
        case Kind.RAISE:
            raise InjectedFault(f"injected in rank {rank} after step {step}")
        case Kind.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Kind.EXIT:
            os._exit(1)
        case Kind.REFUSE:
            os._exit(names.EXIT_DO_NOT_RESTART)
        case Kind.STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        case Kind.HANG:
            while True:
                time.sleep(_HANG_SLEEP_SECONDS)


def main(arguments: list[str] | None = None) -> None:
    """Command line: order a fault from a rank of this pod."""
    parser = argparse.ArgumentParser(prog="python -m rtj_trainer.faults", description=__doc__)
    parser.add_argument("kind", type=Kind, choices=list(Kind), metavar="|".join(Kind))
    parser.add_argument("--rank", type=int, help="global rank; default: the lowest of this pod")
    given = parser.parse_args(arguments)
    ranks = [record.rank for record in BeatReader(shm_dir()).read()]
    rank = min(ranks, default=None) if given.rank is None else given.rank
    if rank not in ranks:
        sys.exit(f"rank {rank} is not in this pod; its ranks are {sorted(ranks)}")
    order(shm_dir(), given.kind, rank)


if __name__ == "__main__":
    main()
