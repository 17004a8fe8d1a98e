"""The processes below the agent: who they are, ending them all, and burying the dead.

The agent is PID 1 of its container, or at least the reaper of its descendants, so whatever a
training process leaves behind hangs below it. That makes "every process of the launch is gone"
a question with an answer, which it must have before the next launch may start.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    group: int
    zombie: bool


Table = dict[int, Process]


def snapshot() -> Table:
    """The process table as this process sees it."""
    found = (_read(Path(entry)) for entry in os.scandir("/proc") if entry.name.isdecimal())
    return {process.pid: process for process in found if process is not None}


def _read(folder: Path) -> Process | None:
    try:
        text = (folder / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the fields after it are plain.
    state, parent, group = text[text.rindex(")") + 2 :].split()[:3]
    return Process(int(folder.name), int(parent), int(group), state == "Z")


def descendants(roots: Iterable[int], table: Table) -> set[int]:
    """All processes below the roots, these not included."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    frontier = list(roots)
    while frontier:
        below = [pid for pid in children.get(frontier.pop(), ()) if pid not in found]
        found.update(below)
        frontier.extend(below)
    return found


def victims(spare: Collection[int], table: Table) -> set[int]:
    """Everything below this process but the spared children and what is below those."""
    spared = set(spare) | descendants(spare, table)
    return descendants([os.getpid()], table) - spared


async def kill_all(spare: Collection[int], managed: Collection[int], deadline: float) -> set[int]:
    """SIGKILL everything below this process but `spare`, and wait until it is gone and reaped.

    `managed` are children whose exit status somebody else collects. `deadline` is a
    time.monotonic() reading; returns the processes that were still there then, normally none.
    """
    while True:
        table = snapshot()
        left = victims(spare, table)
        if not left or time.monotonic() > deadline:
            return left
        _kill(left, table)
        reap(managed, table)
        await asyncio.sleep(_POLL_SECONDS)


def _kill(pids: set[int], table: Table) -> None:
    # Oldest first: the launcher must not live to see its workers die and open a new round.
    for pid in sorted(pids):
        process = table[pid]
        if process.group in pids:
            _signal(os.killpg, process.group)
        _signal(os.kill, pid)


def _signal(send: Callable[[int, int], None], target: int) -> None:
    try:
        send(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def reap(managed: Collection[int], table: Table | None = None) -> None:
    """Collect dead children that nobody waits for; never the exit status of a managed one."""
    own = os.getpid()
    for process in (snapshot() if table is None else table).values():
        if process.zombie and process.parent == own and process.pid not in managed:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                continue
