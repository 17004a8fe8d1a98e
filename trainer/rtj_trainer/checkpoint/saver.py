"""Saves beside the training, and takes up the newest complete checkpoint.

A save copies the state to host memory, which blocks, and writes it from a thread while training
goes on, with a process group of its own: collectives of two threads on one group would mix. The
thread is a daemon, so that a save which hangs never keeps a rank from ending.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import save

from rtj_trainer import gloo
from rtj_trainer.checkpoint import folder
from rtj_trainer.checkpoint.state import TrainingState

log = logging.getLogger(__name__)

# Ranks of a save wait for the slowest writer.
_GROUP_TIMEOUT: Final = timedelta(minutes=30)
_POLL_SECONDS: Final = 0.02
# Shorter than any soft timeout of in-process restart: the other ranks wait in a collective.
_EARLIER_SECONDS: Final = 10.0
NONE: Final = -1


class Unreadable(Exception):
    """There are complete checkpoints, but none fits this training or can be read."""


class Unsaved(Exception):
    """The last checkpoint is not complete."""


class Checkpointer:
    """Checkpoints of one training in one folder; all ranks call all methods in the same order.

    To be made anew when training is entered again, because its process group is new then.
    """

    def __init__(self, root: Path, keep: int = 2) -> None:
        self._root = root
        self._keep = keep
        self._rank = dist.get_rank()
        self._group = _own_group()
        self._stager = DefaultStager(
            StagingOptions(
                # Copies from a GPU are several times faster into it.
                use_pinned_memory=torch.cuda.is_available(),
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=False,
            )
        )
        self._flight: _Flight | None = None
        self._newest = NONE
        # Step of the last save, however it ended, or of the checkpoint that was loaded. Unlike
        # `newest` it is the same on all ranks at the same step.
        self.last = NONE
        # Set by `load`: names this process group's attempts, never used again.
        self._token = ""

    def load(self, state: TrainingState) -> int:
        """Take up the newest complete checkpoint that can be read; its step, or NONE.

        Damaged ones are skipped with a warning; raises Unreadable when there are whole ones and
        none can be loaded, as starting again from nothing would throw training away. Removes what
        dead writers left behind. To be called once, before the first save.
        """
        self._token, candidates = self._agree()
        for checkpoint in candidates:
            try:
                state.load(checkpoint, self._group)
            except CheckpointException as error:
                log.warning("checkpoint skipped: %s: %s", checkpoint.path, error)
                continue
            self._newest = self.last = checkpoint.step
            return self._newest
        if candidates:
            raise Unreadable(
                f"none of the {len(candidates)} complete checkpoints in {self._root} can be loaded "
                "(see the warnings above): use another folder or the model they were made with"
            )
        return NONE

    def save(self, state: TrainingState) -> None:
        """Copy the state and write it in the background; waits for an earlier save to end."""
        self.finish()
        self.last = state.step
        staged = self._stager.stage(state.state_dict())
        attempt = _Attempt(self._root, state.step, self._token, self._keep)
        self._flight = _Flight(attempt, self._group, staged)

    def newest(self) -> int:
        """Step of the newest checkpoint that this rank knows to be complete, or NONE.

        Cheap, to be called each step. Ranks learn of a commit at different moments: nothing that
        all must do alike may depend on it. Logs the failure of a save; the next one tries again.
        """
        flight = self._flight
        if flight is None or flight.is_running():
            return self._newest
        if flight.error is not None:
            log.error("checkpoint of step %d failed: %s", flight.attempt.step, flight.error)
            self._flight = None
        elif flight.attempt.is_committed():
            self._newest = flight.attempt.step
            self._flight = None
        return self._newest

    def finish(self) -> int:
        """Wait for the save in flight; as `newest` otherwise."""
        if self._flight is not None:
            self._flight.join()
        return self.newest()

    def close(self) -> None:
        """Wait until the last save is complete for all ranks.

        Raises Unsaved when it is not: what was trained since the one before would be lost.
        """
        self.finish()
        self._meet()
        if self.newest() != self.last:
            raise Unsaved(f"the checkpoint of step {self.last} in {self._root} was not written")
        self._stager.close()

    def _meet(self) -> None:
        """A barrier; rank 0 comes late, as it commits and removes older checkpoints."""
        barrier = dist.barrier(self._group, async_op=True)
        assert barrier is not None  # as it is asynchronous
        _wait(barrier.is_completed)
        try:
            barrier.wait()
        except RuntimeError as error:
            # By its type, another rank's fault: see inprocess.is_echo.
            raise dist.DistError(str(error)) from error

    def _agree(self) -> tuple[str, tuple[folder.Checkpoint, ...]]:
        """Rank 0 looks, all take its word: file systems may show other ranks something older."""
        word: list[Any] = [None]
        if self._rank == 0:
            self._root.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            found = folder.scan(self._root)
            for damage in found.damaged:
                log.warning("checkpoint skipped: %s", damage)
            word = [(secrets.token_hex(4), found.complete)]
        dist.broadcast_object_list(word, src=0, group=self._group)
        return word[0]

    def _remove_leftovers(self) -> None:
        """Only when no writer of this process lives: one from before a restart in process may be
        committing what would be removed. Those of other ranks commit nothing."""
        earlier = _Flight.last
        if earlier is not None and not earlier.join(_EARLIER_SECONDS):
            log.warning("an earlier save still runs: what dead writers left is removed next time")
            return
        for name in folder.remove_leftovers(self._root):
            log.info("removed %s, left by a writer that died", name)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Where a save goes, and how many complete checkpoints it leaves."""

    root: Path
    step: int
    token: str
    keep: int

    def is_committed(self) -> bool:
        return (folder.final_path(self.root, self.step) / folder.MARKER).exists()


class _Flight:
    """One save on its way to the disk, in a thread; rank 0 commits it."""

    # Of this process, whichever entry into training began it.
    last: "_Flight | None" = None

    def __init__(self, attempt: _Attempt, group: dist.ProcessGroup, state: Any) -> None:
        self.attempt = attempt
        self.error: BaseException | None = None
        self._group = group
        self._over = False
        _Flight.last = self
        threading.Thread(
            target=self._run, args=(state,), name=f"checkpoint-{attempt.step}", daemon=True
        ).start()

    def is_running(self) -> bool:
        return not self._over

    def join(self, seconds: float | None = None) -> bool:
        """Wait until it is over, that long at most; whether it is."""
        return _wait(lambda: self._over, seconds)

    def _run(self, state: Any) -> None:
        try:
            self._write(state)
        finally:
            self._over = True

    def _write(self, state: Any) -> None:
        attempt = self.attempt
        path = folder.temporary_path(attempt.root, attempt.step, attempt.token)
        leads = dist.get_rank(self._group) == 0
        try:
            save(state, storage_writer=FileSystemWriter(path), process_group=self._group)
            if leads:
                self._commit(_least_sizes(path))
        except (Exception, CheckpointException) as error:
            self.error = error
            # Not the others: one whose group broke at the end would remove what rank 0 commits.
            if leads:
                folder.remove_attempt(attempt.root, attempt.step, attempt.token)

    def _commit(self, least: dict[str, int]) -> None:
        attempt, world_size = self.attempt, dist.get_world_size(self._group)
        folder.commit(attempt.root, attempt.step, attempt.token, world_size, least)
        folder.keep_newest(attempt.root, attempt.keep)
        log.info("checkpoint of step %d is complete", attempt.step)


def _least_sizes(path: Path) -> dict[str, int]:
    """Every file that the written metadata names, with the end of the last piece in it.

    Read again: what `save` returns names no files in some versions of torch.
    """
    least: dict[str, int] = {}
    for piece in FileSystemReader(path).read_metadata().storage_data.values():
        end = piece.offset + piece.length
        least[piece.relative_path] = max(end, least.get(piece.relative_path, 0))
    return least


def _wait(over: Callable[[], bool], seconds: float | None = None) -> bool:
    """Wait until it is over, that long at most; whether it is.

    Not in one call: NVRx takes a main thread that runs no Python code for hung. And not with a
    lock: in-process restart raises an exception in the main thread wherever that is, also between
    taking a lock and giving it back.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while not over():
        if deadline is not None and time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _own_group() -> dist.ProcessGroup:
    with gloo.tracked():
        group = dist.new_group(backend="gloo", timeout=_GROUP_TIMEOUT)
    assert isinstance(group, dist.ProcessGroup)  # of all ranks, so this one is in it
    return group
