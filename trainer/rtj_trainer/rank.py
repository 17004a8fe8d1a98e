"""This training process as the rest of the job sees it: one record, one heartbeat, few words.

Everything here is a no-op outside a job, so that a script that uses it runs anywhere, and imports
torch only where a collective is needed.
"""

import functools
import os
import sys
from typing import NoReturn

from rtj_api import names
from rtj_trainer.beats import BeatWriter, leave_requested, shm_dir
from rtj_trainer.monitor import RankMonitor


class Rank:
    """The process's record in shared memory and its connection to NVRx's rank monitor.

    One instance a process, used by the training thread only.
    """

    def __init__(self, writer: BeatWriter, monitor: RankMonitor | None) -> None:
        self._writer = writer
        self._monitor = monitor

    @property
    def speaks(self) -> bool:
        """Whether the script itself has beaten or named a phase."""
        return self._writer.record.speaks

    def beat(
        self,
        step: int | None = None,
        phase: str | None = None,
        checkpoint_step: int | None = None,
        *,
        asked: bool = True,
    ) -> None:
        """Write what is given; a step is progress, which NVRx is told too. `asked`: by the
        script."""
        changes: dict[str, int | str | bool] = {"speaks": True} if asked else {}
        if step is not None:
            changes["step"] = step
        if phase is not None:
            changes["phase"] = phase
        if checkpoint_step is not None:
            changes["checkpoint_step"] = checkpoint_step
        self._writer.update(**changes)
        if step is not None and self._monitor is not None:
            self._monitor.beat()

    def entered(self, iteration: int) -> None:
        """Training was entered, for the first time or again after an in-process restart.

        Steps done since the last checkpoint are undone, so the record says -1 until the
        checkpoint is loaded.
        """
        self._writer.update(iteration=iteration, step=-1, phase="entered", done=False)
        if self._monitor is not None:
            self._monitor.enter()

    def failed(self, error: BaseException, iteration: int) -> None:
        """This rank itself raised `error`, which ends in-process iteration `iteration`."""
        text = f"{type(error).__name__}: {error}"
        self._writer.update(phase="failed", error=text, error_iteration=iteration)

    def life(self) -> str:
        """Which life of the training this is: a recovery of any rung begins a new one."""
        record = self._writer.record
        return f"run={record.run} round={record.round} iteration={record.iteration}"

    def ended(self, saved: bool) -> None:
        """Training is over for this rank: finished, or saved to go on later."""
        self._writer.update(done=not saved, saved=saved, phase="saved" if saved else "done")


def current() -> Rank | None:
    """The rank that this process is; None outside a job."""
    in_job = names.ENV_SHM_DIR in os.environ or names.ENV_JOB_NAME in os.environ
    return _only_rank() if in_job and "LOCAL_RANK" in os.environ else None


@functools.cache
def _only_rank() -> Rank:
    return Rank(BeatWriter.from_env(), RankMonitor.from_env())


def beat(
    step: int | None = None, phase: str | None = None, checkpoint_step: int | None = None
) -> None:
    """Say that this rank lives, and where it is.

    Args:
        step: steps completed since training began; goes on after a restart where the loaded
            checkpoint ended. A fault made on purpose for this step happens here.
        phase: what the rank does next, 32 bytes at most.
        checkpoint_step: step of the newest checkpoint known to be complete.
    """
    if (rank := current()) is not None:
        rank.beat(step, phase, checkpoint_step)
        _fire_due(step)


def beat_unasked(step: int) -> None:
    """As `beat`, for a script that does not do it itself."""
    if (rank := current()) is not None:
        rank.beat(step, asked=False)
        _fire_due(step)


def _fire_due(step: int | None) -> None:
    if step is not None:
        from rtj_trainer import faults  # its command line is run with -m: not while we load

        faults.fire_due(step)


def speaks_for_itself() -> bool:
    """Whether the script itself has beaten or named a phase in this process."""
    rank = current()
    return rank is not None and rank.speaks


def phase(name: str) -> None:
    """Say what comes next; set before each collective, so that of many ranks that wait for one
    the one they wait for can be told."""
    beat(phase=name)


def life() -> str:
    """Run, round and in-process iteration of this process, for log lines; "" outside a job."""
    return "" if (rank := current()) is None else rank.life()


def done() -> None:
    """Say that training has reached its end. Of a script that beats, exit code 0 without this is
    no success: it may have stopped anywhere."""
    if (rank := current()) is not None:
        rank.ended(saved=False)


def leave_wanted() -> bool:
    """Whether this pod is asked to save and leave. Ranks of other pods may not be: act on it only
    when all ranks agree, by `should_leave` or a collective of your own."""
    return current() is not None and leave_requested(shm_dir())


def should_leave() -> bool:
    """Whether the ranks together should save and leave now: true on all as soon as one is asked.

    To be called by all ranks at the same step, as it costs one tiny all-reduce on the default
    group (on the CPU if the group has gloo, else with a wait for the GPU): every tenth step is
    often enough.
    """
    import torch
    import torch.distributed as dist

    wanted = leave_wanted()
    if not dist.is_initialized():
        return wanted
    device = "cpu" if "cpu:gloo" in dist.get_backend_config() else "cuda"
    vote = torch.tensor(int(wanted), device=device)
    dist.all_reduce(vote, op=dist.ReduceOp.MAX)
    return bool(vote.item())


def leave() -> NoReturn:
    """End this process after an agreed save; the job can go on later from the checkpoint."""
    if (rank := current()) is not None:
        rank.ended(saved=True)
    sys.exit(names.EXIT_SAVED)
