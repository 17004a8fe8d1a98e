"""The coordinator's line to the control container: asks for the run, hears what became of it."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

import msgspec

from rtj_trainer.coordinator.control_wire import (
    MAX_LINE_BYTES,
    ControlRequest,
    decode_status,
    encode_line,
)
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.wake import Wake

_RETRY_SECONDS: Final = 0.1
log = logging.getLogger("rtj.coordinator")


async def follow_control(core: Core, socket: Path, happened: Wake, settled: Wake) -> None:
    """Keep the line open for ever."""
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_LINE_BYTES)
        except OSError:
            # The other container may start later, or anew.
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        asking = asyncio.create_task(_ask(core, writer, settled))
        try:
            await _hear(core, reader, happened)
        except (OSError, ValueError, msgspec.DecodeError) as error:
            log.warning("control container: %r", error)
        finally:
            asking.cancel()
            writer.transport.abort()
        core.lose_control(time.monotonic())
        happened.all()
        await asyncio.sleep(_RETRY_SECONDS)


async def _hear(core: Core, reader: asyncio.StreamReader, happened: Wake) -> None:
    while line := await reader.readline():
        status = decode_status(line)
        log.info("nvrx-control of run %d: %s", status.run, status.state)
        core.tell_control(status, time.monotonic())
        happened.all()


async def _ask(core: Core, writer: asyncio.StreamWriter, settled: Wake) -> None:
    asked: ControlRequest | None = None
    with settled.listener() as woken:
        while True:
            woken.clear()
            request = core.control_request
            if request is not None and request != asked:
                writer.write(encode_line(request))
                asked = request
            await woken.wait()
