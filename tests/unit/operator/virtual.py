"""An event loop whose clock jumps to the next timer: waiting costs nothing, order stays exact."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Selector(selectors.DefaultSelector):
    """Takes no time: what would have been waited is added to the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if timeout and not ready:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time; a task that is left over fails."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:

        async def checked() -> T:
            result = await work
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"left over: {left}"
            return result

        return runner.run(checked())
