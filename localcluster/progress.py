"""Progress of the slow parts, as values that any front end can show.

The library reports `Step`s to a callback; the command line and the demo draw them with `Bars`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column


@dataclass(frozen=True)
class Step:
    """How far one task is."""

    task: str
    detail: str = ""
    done: int = 0
    total: int | None = None  # None: the amount of work is not known
    finished: bool = False


Report = Callable[[Step], None]


def silent(_: Step) -> None:
    """Report nothing."""


class Bars:
    """Draws steps as progress bars; without a terminal it prints the end of each task."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<20}"),
            BarColumn(bar_width=24, table_column=Column(min_width=24)),
            TimeElapsedColumn(),
            TextColumn(
                "{task.fields[detail]}", table_column=Column(ratio=1, no_wrap=True), markup=False
            ),
            console=self._console,
            expand=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, step: Step) -> None:
        with self._lock:
            task = self._tasks.get(step.task)
            if task is None:
                task = self._progress.add_task(step.task, total=None, detail="")
                self._tasks[step.task] = task
            self._draw(task, step)

    def _draw(self, task: TaskID, step: Step) -> None:
        total = step.total
        if step.finished:
            total = total or 1
            self._progress.update(task, total=total, completed=total, detail=step.detail)
            if not self._console.is_terminal:
                self._console.print(f"{step.task}: {step.detail or 'done'}", markup=False)
            return
        self._progress.update(task, total=total, completed=step.done, detail=step.detail)
