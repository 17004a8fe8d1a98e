"""Ends gloo's collectives at once, which gloo itself cannot.

After an exception in one rank the others wait in a collective for it, until the group's timeout:
gloo closes its connections only when the last reference to a group is gone, and model, device
mesh and the exception's traceback hold some; its `abort` and `shutdown` do nothing (torch 2.13).
So we remember the connections that a group made, and shut them down: both ends then fail at once.
"""

import contextlib
import os
import socket
import stat
from collections.abc import Iterator

# Descriptor and inode; the inode tells whether the descriptor is still that socket.
_tracked: dict[int, int] = {}


@contextlib.contextmanager
def tracked() -> Iterator[None]:
    """Remember the connections made by the groups that are created inside."""
    before = _sockets()
    yield
    _tracked.update(
        {number: inode for number, inode in _sockets().items() if before.get(number) != inode}
    )


def sever() -> None:
    """Shut down all remembered connections, in whatever thread they are waited for."""
    now = _sockets()
    for number, inode in _tracked.items():
        if now.get(number) == inode:
            _shut(number)
    _tracked.clear()


def _shut(number: int) -> None:
    # gloo closes it in its own thread, perhaps now.
    with contextlib.suppress(OSError):
        connection = socket.socket(fileno=number)
        try:
            # A listening socket has no peer and must stay: gloo ends the process when accepting
            # fails. So must what reached the store in the meantime, which outlives the groups.
            if not _is_of_others(connection):
                connection.shutdown(socket.SHUT_RDWR)
        finally:
            connection.detach()


def _is_of_others(connection: socket.socket) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    ports = (connection.getpeername()[1], connection.getsockname()[1])
    return int(os.environ.get("MASTER_PORT", "0")) in ports


def _sockets() -> dict[int, int]:
    found: dict[int, int] = {}
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers, not files
        with contextlib.suppress(OSError):
            status = os.fstat(number)
            if stat.S_ISSOCK(status.st_mode):
                found[number] = status.st_ino
    return found
