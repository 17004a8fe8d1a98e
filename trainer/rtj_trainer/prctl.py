"""What a process asks of the kernel about itself (prctl(2))."""

import ctypes
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Get SIGKILL when the thread that started this process ends; survives exec, not fork."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def set_name(name: str) -> None:
    """What `ps` and `top` show for this process, 15 bytes at most."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, as PID 1 of a container is."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
