"""A link to a coordinator that misbehaves: it goes on, and costs the operator little."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import ClientSession, web
from prometheus_client import REGISTRY

from rtj_api import names
from rtj_api.messages import (
    Challenge,
    Frame,
    JobDirective,
    JobView,
    Proof,
    WorkerView,
    encode,
)
from rtj_api.tolerant import Reader
from rtj_operator.work import view_link
from rtj_operator.work.view_link import WAKE_BURST, Coordinator, ViewLink
from tests.api.support.api import until
from tests.api.support.coordinator import Coordinator as Hand

KEY = b"k" * 32
_hosts = itertools.count(1)


class Linked:
    """A link, and when it asked for a look (seconds from now)."""

    def __init__(self, address: str) -> None:
        self.wakes: list[float] = []
        coordinator = Coordinator(job_uid="uid", incarnation=0, address=address)
        self.link = ViewLink(coordinator, 1, KEY, self.wakes.append, itertools.count(1))

    async def connected(self) -> bool:
        return self.link.state.connected


@asynccontextmanager
async def linked(address: str) -> AsyncIterator[Linked]:
    async with ClientSession() as session:
        made = Linked(address)
        made.link.start(session)
        try:
            yield made
        finally:
            made.link.stop()


def free_address() -> str:
    return f"127.79.0.{next(_hosts)}"


@asynccontextmanager
async def stranger(address: str, answer: Frame) -> AsyncIterator[list[str]]:
    """Answers every Hello with this frame; yields the Hellos."""
    hellos: list[str] = []

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        hellos.append(await socket.receive_str())
        await socket.send_str(encode(answer).decode())
        await socket.receive()
        return socket

    app = web.Application()
    app.router.add_get(names.VIEW_SOCKET_PATH, serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, address, names.PORT_VIEW_SOCKET).start()
    try:
        yield hellos
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_link, "REFUSED_SECONDS", 0.1)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Challenge(nonce="n", proof="é" * 64), id="a proof beyond ASCII"),
        pytest.param(Challenge(nonce="é", proof="00"), id="a nonce beyond ASCII"),
        pytest.param(Proof(proof="é"), id="a proof where a challenge is due"),
    ],
)
async def test_whoever_answers_the_link_tries_again(
    answer: Frame, caplog: pytest.LogCaptureFixture
) -> None:
    address = free_address()
    async with linked(address) as made:
        async with stranger(address, answer) as hellos:

            async def tried() -> bool:
                return len(hellos) > 2

            await until("three tries", tried)
        async with Hand(address, KEY):
            await until("the right one is connected", made.connected)
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


async def test_fault_of_ours_is_logged_and_the_link_connects_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter((RuntimeError("unforeseen"),))
    right = Reader[Frame].decode

    def decode(reader: Reader[Frame], data: bytes | str) -> Frame:
        for fault in faults:
            raise fault
        return right(reader, data)

    monkeypatch.setattr(Reader, "decode", decode)
    address = free_address()
    async with Hand(address, KEY), linked(address) as made:
        await until("connected in the end", made.connected)
    assert any("unforeseen" in str(record.exc_info) for record in caplog.records)


async def test_frame_that_is_not_understood_is_told_once_counted_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("rtj_view_bad_frames_total") or 0.0

    address, before = free_address(), counted()
    beyond = b'{"t":"job_view","coordinator_incarnation":0,"highest_step":1%s}' % (b"0" * 22)
    async with Hand(address, KEY) as hand, linked(address) as made:
        await until("connected", made.connected)
        for data in (beyond, beyond, b"no JSON"):
            await hand.send(data)
        await hand.tell(JobView(coordinator_incarnation=0, highest_step=7))

        async def told() -> bool:
            view = made.link.state.view
            return view is not None and view.highest_step == 7

        await until("the view after them", told)
    assert counted() - before == 3
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len([r for r in warnings if "not understood" in r.getMessage()]) == 1


async def test_news_in_every_view_brings_a_burst_of_looks_and_then_one_a_second() -> None:
    address = free_address()
    worker = WorkerView(slot=0, incarnation=0, pod_uid="u")
    async with Hand(address, KEY) as hand, linked(address) as made:
        await until("connected", made.connected)
        for number in range(40):
            flapping = msgspec.structs.replace(worker, connected=number % 2 == 0)
            await hand.tell(JobView(coordinator_incarnation=0, workers=(flapping,)))
            await asyncio.sleep(0)

        async def told() -> bool:
            return len(made.wakes) > 2 * WAKE_BURST

        await until("the views are read", told)
        # Two seconds of views at most: so many tokens may have come meanwhile.
        assert WAKE_BURST <= made.wakes.count(0.0) <= WAKE_BURST + 2
        assert max(made.wakes) <= view_link.WAKE_REFILL_SECONDS


async def test_frames_that_are_not_understood_do_not_keep_it_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_link, "SILENCE_SECONDS", 0.5)
    address = free_address()
    async with Hand(address, KEY) as hand, linked(address) as made:
        await until("connected", made.connected)
        hand.fall_silent()

        async def unconnected() -> bool:
            await hand.send(b'{"t":"job_view","coordinator_incarnation":"zero"}')
            return not made.link.state.connected

        await until("unconnected while frames still come", unconnected)
        assert made.link.state.view == JobView(coordinator_incarnation=0)


async def test_after_a_reconnect_the_old_view_does_not_count() -> None:
    address = free_address()
    async with Hand(address, KEY) as hand, linked(address) as made:
        await hand.tell(JobView(coordinator_incarnation=0, highest_step=7))
        await until("connected", made.connected)
        hand.fall_silent()
        await hand.cut()

        async def connected_again() -> bool:
            return hand.connections == 2

        await until("connected again", connected_again)
        made.link.direct(JobDirective(epoch=1, number=1, run=1, nodes=1, processes_per_node=1))

        async def directed() -> bool:
            return bool(hand.directives)

        await until("the directive needs no view to go out", directed)
        state = made.link.state
        assert state.view is not None
        assert (state.connected, state.view.highest_step) == (False, 7)
        assert state.lost_seconds > 0
        looks = len(made.wakes)
        await hand.tell(JobView(coordinator_incarnation=0, highest_step=7))
        await until("connected by a view of this connection", made.connected)
        assert made.wakes[looks:] == [0.0], "the same view as before is news now"


@pytest.mark.parametrize("seals", [True, False], ids=["of this version", "of an earlier one"])
async def test_either_coordinator_is_understood_and_directed(seals: bool) -> None:
    address = free_address()
    async with Hand(address, KEY, seals=seals) as hand, linked(address) as made:
        made.link.direct(JobDirective(epoch=1, number=1, run=1, nodes=1, processes_per_node=1))
        await until("connected", made.connected)

        async def directed() -> bool:
            return bool(hand.directives)

        await until("directed", directed)
        assert bool(made.link.state.capabilities) == seals


async def test_a_frame_put_in_on_the_way_ends_the_connection_unread() -> None:
    address = free_address()
    async with Hand(address, KEY) as hand, linked(address) as made:
        await until("connected", made.connected)
        await hand.inject(encode(JobView(coordinator_incarnation=0, highest_step=666)))

        async def connected_anew() -> bool:
            return hand.connections == 2 and made.link.state.connected

        await until("a new connection", connected_anew)
        assert made.link.state.view == JobView(coordinator_incarnation=0)
