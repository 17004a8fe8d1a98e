"""Run programs and wait for conditions, with errors that say what to read next."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcluster.errors import CommandFailed, Died, NotReady

POLL_SECONDS = 0.05


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; stdout and stderr are kept apart, a failure shows both."""
    argv = [str(part) for part in command]
    done = subprocess.run(
        argv, input=stdin, env=env, cwd=cwd, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise CommandFailed(argv, done.returncode, done.stdout + done.stderr)
    return done


def stream(
    command: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
) -> None:
    """Run a long program and hand over each line of its output as it comes.

    The program is told to end when we die, so that a killed build does not go on unseen.
    """
    argv = ["setpriv", "--pdeathsig", "TERM", *(str(part) for part in command)]
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            on_line(line.rstrip())
    if log is not None:
        log.write_text("".join(lines))
    if process.returncode != 0:
        raise CommandFailed(argv, process.returncode, "".join(lines[-40:]))


def wait_until(
    what: str,
    ready: Callable[[], bool],
    *,
    seconds: float,
    log: Path | None = None,
    last: Callable[[], str] = lambda: "",
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Poll `ready` until it is true; after `seconds` fail and name `log` as what to read.

    `alive` false ends the wait at once; `last` tells what the last attempt answered.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if not alive():
            raise Died(what, log)
        if time.monotonic() > deadline:
            raise NotReady(what, seconds, log, last())
        time.sleep(POLL_SECONDS)
