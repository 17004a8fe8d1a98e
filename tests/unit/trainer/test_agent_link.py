"""The agent's link against peers that misbehave, over real sockets on loopback.

The well-behaved peer is the real coordinator in tests/launcher.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from rtj_api import auth, capabilities, names
from rtj_api.messages import (
    Beat,
    Challenge,
    Hello,
    Proof,
    Refused,
    Welcome,
    WorkerDirective,
    decode_worker_socket,
    encode,
)
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.link import Link
from rtj_trainer.agent.metrics import AgentMetrics

_KEY = bytes(range(32))
_WAIT_SECONDS = 10
Peer = Callable[[web.WebSocketResponse], Awaitable[None]]


def _config(port: int) -> AgentConfig:
    return AgentConfig(
        job_name="llama",
        job_uid="uid",
        slot=3,
        incarnation=1,
        pod_name="llama-worker-3-1",
        pod_uid="pod",
        pod_ip="127.0.0.1",
        coordinator_host="127.0.0.1",
        processes_per_node=1,
        device="cpu",
        grace_seconds=30,
        key=_KEY,
        command=("train.py",),
        run_dir=Path("/nowhere"),
        shm_dir=Path("/nowhere"),
        termination_log=Path("/nowhere"),
        worker_port=port,
    )


class _Worker:
    """A running link and what it was told."""

    def __init__(self, port: int) -> None:
        self.directives: asyncio.Queue[WorkerDirective] = asyncio.Queue()
        self.metrics = AgentMetrics()
        self.link = Link(
            _config(port), self.metrics, lambda: Beat(seq=1), self.directives.put_nowait
        )


@asynccontextmanager
async def _against(peer: Peer) -> AsyncIterator[_Worker]:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await peer(socket)
        return socket

    app = web.Application()
    app.add_routes([web.get(names.WORKER_SOCKET_PATH, serve)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    worker = _Worker(runner.addresses[0][1])
    running = asyncio.create_task(worker.link.run())
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            yield worker
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await runner.cleanup()


async def _welcome(socket: web.WebSocketResponse, key: bytes = _KEY) -> Hello:
    """The server's part of the handshake; checks the client's proof."""
    data = (await socket.receive_str()).encode()
    hello = decode_worker_socket(data)
    assert isinstance(hello, Hello)
    nonce = auth.new_nonce()
    challenge = Challenge(nonce=nonce, proof=auth.proof(key, "server", data, nonce))
    await socket.send_str(encode(challenge).decode())
    proof = decode_worker_socket(await socket.receive_str())
    assert isinstance(proof, Proof)
    assert auth.proves(key, "client", data, nonce, proof.proof)
    await socket.send_str(encode(Welcome(protocol=1)).decode())
    return hello


async def _welcome_sealed(socket: web.WebSocketResponse) -> auth.Channel:
    """As `_welcome`, by a coordinator of this version."""
    data = (await socket.receive_str()).encode()
    hello = decode_worker_socket(data)
    assert isinstance(hello, Hello)
    ours, nonce = capabilities.COORDINATOR, auth.new_nonce()
    said = auth.said(data, ours)
    proof = auth.proof(_KEY, "server", said, nonce)
    challenge = Challenge(nonce=nonce, proof=proof, capabilities=ours)
    await socket.send_str(encode(challenge).decode())
    answer = decode_worker_socket(await socket.receive_str())
    assert isinstance(answer, Proof)
    assert auth.proves(_KEY, "client", said, nonce, answer.proof)
    channel = auth.Channel.agreed(_KEY, "server", said, nonce, ours, hello.capabilities)
    assert channel is not None
    await socket.send_bytes(channel.seal(encode(Welcome(protocol=1))))
    return channel


async def test_sealed_frames_go_both_ways_and_one_put_in_ends_the_connection():
    beats: asyncio.Queue[Beat] = asyncio.Queue()
    connections = itertools.count(1)

    async def peer(socket: web.WebSocketResponse) -> None:
        channel = await _welcome_sealed(socket)
        number = next(connections)
        beat = decode_worker_socket(channel.open(await socket.receive_bytes()))
        assert isinstance(beat, Beat)
        beats.put_nowait(beat)
        directive = channel.seal(encode(WorkerDirective(state="park", run=number)))
        await socket.send_bytes(directive)
        put_in = (
            directive,
            encode(WorkerDirective(state="exit")),
            channel.seal(b"{}")[:-1] + b"]",
        )
        await socket.send_bytes(put_in[number % 3])
        async for _ in socket:
            continue

    async with _against(peer) as worker:
        for number in (1, 2, 3):
            await beats.get()
            directive = await worker.directives.get()
            assert (directive.state, directive.run) == ("park", number)
        assert worker.link.capabilities == capabilities.COORDINATOR


async def test_a_welcome_without_a_seal_is_no_welcome():
    closed: asyncio.Queue[WSMsgType] = asyncio.Queue()

    async def peer(socket: web.WebSocketResponse) -> None:
        data = (await socket.receive_str()).encode()
        ours, nonce = capabilities.COORDINATOR, auth.new_nonce()
        proof = auth.proof(_KEY, "server", auth.said(data, ours), nonce)
        challenge = Challenge(nonce=nonce, proof=proof, capabilities=ours)
        await socket.send_str(encode(challenge).decode())
        await socket.receive_str()
        await socket.send_str(encode(Welcome(protocol=1)).decode())
        closed.put_nowait((await socket.receive()).type)

    async with _against(peer) as worker:
        assert await closed.get() is WSMsgType.CLOSE
        assert worker.link.capabilities == ()


async def test_server_without_the_key_never_gets_a_proof():
    ended: asyncio.Queue[WSMsgType] = asyncio.Queue()

    async def impostor(socket: web.WebSocketResponse) -> None:
        data = (await socket.receive_str()).encode()
        nonce = auth.new_nonce()
        challenge = Challenge(nonce=nonce, proof=auth.proof(b"x" * 32, "server", data, nonce))
        await socket.send_str(encode(challenge).decode())
        ended.put_nowait((await socket.receive()).type)

    async with _against(impostor) as worker:
        assert await ended.get() is WSMsgType.CLOSE
        # It tries again, with as little to show for it.
        assert await ended.get() is WSMsgType.CLOSE
        assert worker.link.lease_age == float("inf")


async def test_malformed_frames_are_told_once_and_ignored(caplog: pytest.LogCaptureFixture):
    async def babbler(socket: web.WebSocketResponse) -> None:
        await _welcome(socket)
        for nonsense in ("{", '{"t":"no-such-frame"}', '{"t":"worker_directive","state":7}'):
            await socket.send_str(nonsense)
        directive = '{"t":"worker_directive","state":"park","added_later":1}'
        await socket.send_str(directive)
        async for _ in socket:
            continue

    with caplog.at_level(logging.WARNING):
        async with _against(babbler) as worker:
            assert (await worker.directives.get()).state == "park"
    assert len([r for r in caplog.records if "not understood" in r.message]) == 1


async def test_hello_says_who_it_is_and_refusal_is_counted_and_retried():
    hellos: asyncio.Queue[Hello] = asyncio.Queue()

    async def refuser(socket: web.WebSocketResponse) -> None:
        hello = decode_worker_socket(await socket.receive_str())
        assert isinstance(hello, Hello)
        hellos.put_nowait(hello)
        await socket.send_str(encode(Refused(reason="stale-incarnation")).decode())

    async with _against(refuser) as worker:
        first, second = await hellos.get(), await hellos.get()
        assert (first.slot, first.incarnation, first.pod_uid) == (3, 1, "pod")
        assert first.nonce != second.nonce
        assert worker.metrics.refusals._value.get() >= 1


async def test_lease_ages_when_pings_are_no_longer_answered_though_frames_still_come():
    deaf = asyncio.Event()

    async def half_dead(socket: web.WebSocketResponse) -> None:
        await _welcome(socket)
        async with asyncio.timeout(1.5):
            async for _ in socket:
                continue

    async def peer(socket: web.WebSocketResponse) -> None:
        try:
            await half_dead(socket)
        except TimeoutError:
            deaf.set()
            while not socket.closed:
                await socket.send_str(encode(WorkerDirective(state="park")).decode())
                await asyncio.sleep(0.05)

    async with _against(peer) as worker:
        await deaf.wait()
        # Up to a beat interval old: the newest ping that was answered.
        assert worker.link.lease_age < 1.5
        for _ in range(30):
            await worker.directives.get()
        assert worker.link.lease_age > 1.5


async def test_change_is_told_at_once_but_not_faster_than_ten_times_a_second():
    loop = asyncio.get_running_loop()
    arrivals: asyncio.Queue[float] = asyncio.Queue()

    async def peer(socket: web.WebSocketResponse) -> None:
        await _welcome(socket)
        await socket.send_str(
            encode(WorkerDirective(state="park", beat_interval_seconds=5)).decode()
        )
        async for _ in socket:
            arrivals.put_nowait(loop.time())

    async with _against(peer) as worker:
        await worker.directives.get()
        await arrivals.get()
        assert await worker.link.flush(2)
        times = [await arrivals.get()]
        for _ in range(3):
            worker.link.changed()
            times.append(await arrivals.get())
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(0.05 < gap < 1 for gap in gaps), gaps


async def test_connection_that_breaks_is_made_again():
    welcomed: asyncio.Queue[Hello] = asyncio.Queue()

    async def peer(socket: web.WebSocketResponse) -> None:
        welcomed.put_nowait(await _welcome(socket))
        await socket.send_str(encode(WorkerDirective(state="park")).decode())
        await socket.receive()
        if welcomed.qsize() == 1:
            await socket.close()
        else:
            socket._req.transport.abort()  # pyright: ignore

    async with _against(peer) as worker:
        for _ in range(3):
            await worker.directives.get()
    assert welcomed.qsize() >= 3
