"""Wakes the coordinator's tasks: something happened, look at the state again."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Wake:
    """Each listener has an event of its own, to be cleared before it looks."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()

    @contextmanager
    def listener(self) -> Iterator[asyncio.Event]:
        """An event that is set by `all`."""
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)

    def all(self) -> None:
        """Wake everybody."""
        for event in self._listeners:
            event.set()


async def wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
