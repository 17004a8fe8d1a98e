"""What a person sees while the demo runs: the job's row, its workers, and what happened when."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.watch import JobWatch

LOG_LINES = 14


@dataclass
class Story:
    """The log of what happened when; printed as lines where there is no terminal."""

    console: Console
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    def tell(self, text: str, style: str = "") -> None:
        """Add a line."""
        now = time.time()
        self.lines.append((now, text, style))
        if not self.console.is_terminal:
            self.console.print(f"{now - self.began:7.1f}s  {text}", markup=False, highlight=False)


def _job_table(status: dict[str, Any], step: int, job: str) -> Table:
    table = Table(expand=True)
    columns = ("NAME", "PHASE", "WORKERS", "SPARES", "STEP", "RESTARTS", "LAST FAULT", "REASON")
    for column in columns:
        table.add_column(column, no_wrap=True)
    workers = status.get("workers", {})
    table.add_row(
        job,
        status.get("phase", "-"),
        workers.get("summary", "-"),
        str(workers.get("spares", "-")),
        str(step) if step >= 0 else "-",
        status.get("restarts", {}).get("summary", "-"),
        status.get("lastFault", {}).get("summary", "-"),
        status.get("reason", "-"),
    )
    return table


class Screen:
    """A live view of one job; on no terminal only the story's lines."""

    def __init__(self, console: Console, story: Story, watch: JobWatch) -> None:
        self._console = console
        self._story = story
        self._watch = watch
        self._stop = threading.Event()

    def _render(self) -> RenderableType:
        rows: list[Text] = []
        for unix, text, style in self._story.lines[-LOG_LINES:]:
            rows.append(Text(f"{unix - self._story.began:7.1f}s  {text}", style=style))
        table = _job_table(self._watch.status, self._watch.highest_step, self._watch.job)
        return Group(table, *rows)

    def __enter__(self) -> "Screen":
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._render, console=self._console, refresh_per_second=4
            )
            self._live.start()
        threading.Thread(target=self._follow_changes, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        if self._live:
            self._live.stop()

    def _follow_changes(self) -> None:
        """Turn each change of phase and each recovery into a line of the story."""
        phase, told = "", 0
        while not self._stop.wait(0.1):
            changes = self._watch.changes
            for change in changes[told:]:
                status = change.status
                if status.get("phase", "") != phase:
                    phase = status.get("phase", "")
                    lines = (status.get("message") or status.get("reason", "")).splitlines()
                    message = lines[0][:160] if lines else ""
                    self._story.tell(f"phase {phase}: {message}", "bold")
            told = len(changes)
