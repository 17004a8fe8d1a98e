"""The fence as NVRx's own client sees it: torch-free service, real gRPC on a Unix socket."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nvidia_resiliency_ext.shared_utils.health_check import NodeHealthCheck

from rtj_trainer.nvrx.health import HealthService


@pytest.fixture
async def folder() -> AsyncIterator[Path]:
    # Short: a Unix socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="rtj") as name:
        yield Path(name)


async def test_joining_is_allowed_only_while_nothing_speaks_against_it(folder: Path):
    refusals = ["the coordinator was last heard 9.0 s ago"]
    service = HealthService(folder / "run" / "health.sock", lambda: "".join(refusals))
    await service.start()
    try:
        ask = NodeHealthCheck(endpoint=service.endpoint, request_timeout_sec=5)
        assert await asyncio.to_thread(ask) is False
        refusals.clear()
        assert await asyncio.to_thread(ask) is True
    finally:
        await service.stop()


async def test_socket_of_an_earlier_agent_is_replaced(folder: Path):
    socket = folder / "health.sock"
    socket.touch()
    service = HealthService(socket, lambda: "")
    await service.start()
    await service.stop()
