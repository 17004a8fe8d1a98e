"""The coordinator's addresses, so that a name server that does not answer delays no connection.

A lookup without an answer takes the resolver 5 to 40 s, and lookups that wait for one another use
up the event loop's threads: a worker whose network came back would be without its coordinator for
as long. So the addresses that a name had last are used at once, while one lookup at a time, in a
thread of its own, finds out what they are now. A Service keeps its address for life.
"""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable

Lookup = Callable[[str], tuple[str, ...]]


class Addresses:
    """Of one host name; a host that is an address needs no lookup."""

    def __init__(self, host: str, lookup: Lookup | None = None) -> None:
        self._host = host
        self._lookup = lookup or look_up
        self._known = (host,) if _is_address(host) else ()
        self._fixed = bool(self._known)
        self._asked: asyncio.Future[None] | None = None

    async def newest(self) -> tuple[str, ...]:
        """What is known now; the first time this waits for the answer. Raises OSError."""
        if not self._fixed:
            asked = self._ask()
            if not self._known:
                await asyncio.shield(asked)
        return self._known

    def _ask(self) -> asyncio.Future[None]:
        """Begin a lookup, if none is under way."""
        asked = self._asked
        if asked is None or asked.done():
            loop = asyncio.get_running_loop()
            asked = self._asked = loop.create_future()
            # Not in the loop's own threads: the program's end would wait for them.
            threading.Thread(target=self._look_up, args=(loop, asked), daemon=True).start()
        return asked

    def _look_up(self, loop: asyncio.AbstractEventLoop, asked: asyncio.Future[None]) -> None:
        found: tuple[str, ...] | OSError
        try:
            found = self._lookup(self._host)
        except OSError as error:
            found = error
        try:
            loop.call_soon_threadsafe(self._take, asked, found)
        except RuntimeError:
            # The loop was closed meanwhile.
            return

    def _take(self, asked: asyncio.Future[None], found: tuple[str, ...] | OSError) -> None:
        if asked.cancelled():
            return
        if not isinstance(found, OSError):
            self._known = found
            asked.set_result(None)
        elif self._known:
            asked.set_result(None)
        else:
            asked.set_exception(found)
            # Whoever asked may have given up.
            asked.exception()


def look_up(host: str) -> tuple[str, ...]:
    """Addresses of a name, as the system resolves it; blocks. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def bracketed(host: str) -> str:
    """The host as it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
