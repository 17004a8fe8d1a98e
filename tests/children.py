"""Processes that tests and benchmarks start: they end when whoever started them is killed."""

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final

# The kernel sends the signal when the thread that started the child ends. This one never does.
_STARTER: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


def ending_with_us(command: Sequence[str | Path]) -> list[str]:
    """The command of a child that gets SIGKILL when this thread ends, however that comes about."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *(str(part) for part in command)]


def start(command: Sequence[str | Path], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a child that ends with this process, whatever thread asks; it writes to `log`."""
    return _STARTER.submit(
        subprocess.Popen, ending_with_us(command), stdout=log, stderr=subprocess.STDOUT
    ).result()
