"""Processes that tests and benchmarks start: they end when whoever started them is killed."""

from collections.abc import Sequence
from pathlib import Path


def ending_with_us(command: Sequence[str | Path]) -> list[str]:
    """The command of a child that gets SIGKILL when this thread ends, however that comes about."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *(str(part) for part in command)]
