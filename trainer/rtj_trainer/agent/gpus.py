"""Waits until the GPUs have given back the memory of killed processes, which takes a moment.

ft_launcher waits so itself when it restarts its processes, but not when it is killed.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

# As in ft_launcher's wait.
_TOLERATED_BYTES: Final = 512 * 1024**2
_SECONDS: Final = 50.0
_POLL_SECONDS: Final = 0.25
_log = logging.getLogger(__name__)


def used_bytes() -> tuple[int, ...]:
    """What processes hold of each GPU; nothing where there is no GPU or no answer."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        # Version 2, as 1 counts what the driver keeps for itself.
        infos = [pynvml.nvmlDeviceGetMemoryInfo(one, pynvml.nvmlMemory_v2) for one in handles]
        return tuple(int(info.used) for info in infos)
    except pynvml.NVMLError as error:
        _log.warning("memory of the GPUs: %s", error)
        return ()
    finally:
        pynvml.nvmlShutdown()


async def wait_until_free(
    used: Callable[[], tuple[int, ...]] = used_bytes, seconds: float = _SECONDS
) -> bool:
    """Come back when no GPU's memory is in use, or the time is over; whether it was freed."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    # Later than the wait below, which has to be the one that gives up.
    end = time.monotonic() + seconds + 1

    def poll() -> None:
        try:
            while any(amount > _TOLERATED_BYTES for amount in used()) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
        except Exception as error:
            _log.warning("memory of the GPUs: %s", error)
        finally:
            with contextlib.suppress(RuntimeError):  # the agent has ended
                loop.call_soon_threadsafe(over.set)

    # A broken GPU may never answer: a thread that nobody joins.
    threading.Thread(target=poll, name="gpu-memory", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        _log.error("GPU memory is still in use %.0f s after the last process ended", seconds)
        return False
    return True
