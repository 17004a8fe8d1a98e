"""Credentials are renewed beside the work, whatever their plugin does."""

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import kopf
import pytest

from rtj_operator.kube import credentials
from rtj_operator.kube.credentials import Credentials
from tests.api.support.api import until

EXPIRED = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = kopf.ConnectionInfo(server="https://api", token="first", expiration=EXPIRED)
SECOND = dataclasses.replace(FIRST, token="second", expiration=datetime(2999, 1, 1, tzinfo=UTC))


class Plugin:
    """Gives the first token at once; how the next one comes is said by `then`."""

    def __init__(self, then: Callable[[], kopf.ConnectionInfo]) -> None:
        self.calls = 0
        self._then = then

    def __call__(self, _: kopf.OperatorSettings) -> kopf.ConnectionInfo:
        self.calls += 1
        return FIRST if self.calls == 1 else self._then()


async def test_slow_plugin_holds_up_nobody_and_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow() -> kopf.ConnectionInfo:
        gate.wait(10)
        return SECOND

    plugin = Plugin(slow)
    monkeypatch.setattr(credentials, "login", plugin)
    held = Credentials()
    for _ in range(3):
        assert held.connection.token == "first"
        await asyncio.sleep(0.01)
    gate.set()

    async def renewed() -> bool:
        return held.connection.token == "second"

    await until("the second token", renewed)
    assert plugin.calls == 2


async def test_failing_plugin_leaves_what_is_known_and_is_not_asked_at_each_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing() -> kopf.ConnectionInfo:
        raise OSError("no such plugin")

    plugin = Plugin(failing)
    monkeypatch.setattr(credentials, "login", plugin)
    held = Credentials()

    async def told() -> bool:
        return held.connection.token == "first" and "no such plugin" in caplog.text

    await until("the failure is told", told)
    for _ in range(5):
        assert held.connection.token == "first"
        await asyncio.sleep(0.01)
    assert plugin.calls == 2


async def test_hanging_plugin_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()

    def hanging() -> kopf.ConnectionInfo:
        gate.wait(10)
        return SECOND

    monkeypatch.setattr(credentials, "login", Plugin(hanging))
    monkeypatch.setattr(credentials, "READ_SECONDS", 0.05)
    held = Credentials()

    async def told() -> bool:
        return held.connection.token == "first" and "TimeoutError" in caplog.text

    try:
        await until("that it is given up", told)
    finally:
        gate.set()
