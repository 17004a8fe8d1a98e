"""A request that is not answered says what was asked and why it ended."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import kopf
import pytest

from rtj_operator.kube import client
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import Unreachable
from rtj_operator.kube.objects import NODES
from tests.ports import free_port


class Known:
    """Credentials of a server."""

    def __init__(self, server: str) -> None:
        self.connection = kopf.ConnectionInfo(server=server)
        self.tls = self.connection.as_ssl_context()


@pytest.fixture
async def mute() -> AsyncIterator[str]:
    """Takes connections and says nothing."""
    port = free_port()
    ended = asyncio.Event()

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    async with await asyncio.start_server(wait, "127.0.0.1", port):
        yield f"http://127.0.0.1:{port}"
        ended.set()


async def test_timeout_is_named(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "REQUEST_SECONDS", 0.1)
    async with KubeClient(cast("Any", Known(mute)), lambda: 60.0) as kube:
        with pytest.raises(Unreachable, match=r"^POST /api/v1/nodes: TimeoutError$"):
            await kube.create(NODES, "", {})
