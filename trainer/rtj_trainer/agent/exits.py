"""Turns what the launcher saw of a failed training process into reports for the coordinator."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rtj_api.messages import MAX_FAULTS, MAX_TEXT, ExitReport
from rtj_trainer.agent.launcher_process import LauncherProcess
from rtj_trainer.agent.memory import OomWatch
from rtj_trainer.nvrx.launcher_events import RankFailed

_SIGKILL = -9


@dataclass(frozen=True, slots=True)
class LauncherEnd:
    """How a launcher ended by itself."""

    exit_code: int
    out_of_memory: bool
    tail: str


class ExitLog:
    """The newest reports; numbered over the agent's life, so that a repeated beat is no new
    fault."""

    def __init__(self, oom: OomWatch, changed: Callable[[], None]) -> None:
        self._oom = oom
        self._changed = changed
        self._reports: deque[ExitReport] = deque(maxlen=MAX_FAULTS)
        self._number = 0
        self._hung: set[int] = set()

    @property
    def reports(self) -> tuple[ExitReport, ...]:
        """Oldest first."""
        return tuple(self._reports)

    def hung(self, pid: int) -> None:
        """A rank monitor is about to end this process."""
        self._hung.add(pid)

    def new_round(self) -> None:
        """The processes of earlier rounds are gone."""
        self._hung.clear()

    def launcher_ended(self, exit_code: int, launcher: LauncherProcess) -> LauncherEnd:
        """How it ended; one that SIGKILL ended has no last words, as a rank has none."""
        killed = exit_code == _SIGKILL
        return LauncherEnd(
            exit_code,
            out_of_memory=killed and self._oom.struck(),
            tail="" if killed else launcher.tail(MAX_TEXT),
        )

    async def failed(self, event: RankFailed, run: int, launcher: LauncherProcess) -> None:
        """Report a training process that ended other than with 0."""
        hang = event.pid in self._hung
        killed = event.exit_code == _SIGKILL and not hang
        tail = event.message
        if not tail and event.exit_code != _SIGKILL:
            # A process that SIGKILL ended has no last words: its output tells of older things.
            tail = await launcher.rank_tail(event.local_rank)
        # Only now: of two that fail together one may wait longer for its words, and the coordinator
        # takes in no number below one that it has seen.
        self._number += 1
        self._reports.append(
            ExitReport(
                number=self._number,
                run=run,
                round=event.round,
                local_rank=event.local_rank,
                rank=event.rank,
                exit_code=event.exit_code,
                out_of_memory=killed and self._oom.struck(),
                hang=hang,
                tail=tail[-MAX_TEXT:],
            )
        )
        self._changed()
