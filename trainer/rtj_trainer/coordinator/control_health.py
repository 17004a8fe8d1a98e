"""/healthz of the control container: a container that stands still does not answer.

It says nothing of nvrx-control: that one's end is told to the coordinator, who asks its store too.
HTTP by hand, because this container holds no web server otherwise.
"""

import asyncio
from typing import Final

_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_REQUEST_SECONDS: Final = 5.0
_MAX_REQUEST_BYTES: Final = 8192


async def serve_health(host: str, port: int) -> asyncio.Server:
    """Answer every request; host "" is all addresses."""
    return await asyncio.start_server(_answer, host or None, port, limit=_MAX_REQUEST_BYTES)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_OK)
            await writer.drain()
    except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
