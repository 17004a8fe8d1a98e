"""The coordinator's sockets, with real connections: who is let in, what is said and ignored."""

import asyncio
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from rtj_api import auth, capabilities, names
from rtj_api.messages import (
    Beat,
    Challenge,
    Frame,
    Hello,
    JobDirective,
    JobView,
    Proof,
    Refused,
    Welcome,
    WorkerDirective,
    decode_view_socket,
    decode_worker_socket,
    encode,
)
from rtj_trainer.coordinator import main, peers
from rtj_trainer.coordinator.settings import Settings, SettingsError
from tests.ports import free_port

JOB = "job-uid"
WORKER = Hello(role="worker", job_uid=JOB, nonce="n", pod_uid="pod-0", pod_name="w", slot=0)
OPERATOR = Hello(role="operator", job_uid=JOB, nonce="n", epoch=3)
DIRECTIVE = JobDirective(epoch=3, number=1, run=1, nodes=1, processes_per_node=1, pods={"pod-0": 0})


def _any(_: Frame) -> bool:
    return True


@dataclass
class Client:
    """One WebSocket to the coordinator."""

    socket: aiohttp.ClientWebSocketResponse
    decode: Callable[[bytes | str], Frame]
    channel: auth.Channel | None = None

    async def send(self, frame: Frame | bytes) -> None:
        data = frame if isinstance(frame, bytes) else encode(frame)
        if self.channel is None:
            await self.socket.send_str(data.decode())
        else:
            await self.socket.send_bytes(self.channel.seal(data))

    async def receive(self) -> Frame | None:
        """The next frame, None when the coordinator closed the connection."""
        async with asyncio.timeout(10):
            message = await self.socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY and self.channel is not None:
            return self.decode(self.channel.open(message.data))
        return self.decode(message.data) if message.type is aiohttp.WSMsgType.TEXT else None

    async def expect[F: Frame](self, kind: type[F], want: Callable[[F], bool] = _any) -> F:
        """The next frame of that kind that is as wanted; others are skipped."""
        async with asyncio.timeout(10):
            while True:
                frame = await self.receive()
                assert frame is not None, f"closed before {kind.__name__} came"
                if isinstance(frame, kind) and want(frame):
                    return frame


@dataclass
class Coordinator:
    """A running coordinator and clients of it."""

    settings: Settings
    session: aiohttp.ClientSession
    clients: list[Client] = field(default_factory=list)

    async def open(self, role: str) -> Client:
        settings = self.settings
        port, path, decode = {
            "worker": (settings.worker_port, names.WORKER_SOCKET_PATH, decode_worker_socket),
            "operator": (settings.view_port, names.VIEW_SOCKET_PATH, decode_view_socket),
        }[role]
        url = f"ws://127.0.0.1:{port}{path}"
        client = Client(await self.session.ws_connect(url, max_msg_size=0), decode)
        self.clients.append(client)
        return client

    async def shake(self, hello: Hello, key: bytes | None = None, role: str = "") -> Client:
        """Open and go through the handshake, up to the coordinator's answer to the proof."""
        client = await self.open(role or hello.role)
        said = encode(hello)
        await client.send(said)
        challenge = await client.expect(Challenge)
        nonce, theirs = challenge.nonce, challenge.capabilities
        covered = auth.said(said, theirs)
        assert auth.proves(self.settings.key, "server", covered, nonce, challenge.proof)
        proof = auth.proof(key or self.settings.key, "client", covered, nonce)
        await client.send(Proof(proof=proof))
        client.channel = auth.Channel.agreed(
            self.settings.key, "client", covered, nonce, hello.capabilities, theirs
        )
        return client

    async def connect(self, hello: Hello) -> Client:
        client = await self.shake(hello)
        await client.expect(Welcome)
        return client

    async def metrics(self, path: str = "/metrics") -> str:
        url = f"http://127.0.0.1:{self.settings.metrics_port}{path}"
        async with self.session.get(url) as answer:
            assert answer.status == 200
            return await answer.text()


def settings_for(folder: Path) -> Settings:
    return Settings(
        job_uid=JOB,
        incarnation=2,
        key=secrets.token_bytes(32),
        store_host="store",
        run_dir=folder,
        store_port=free_port(),
        worker_port=free_port(),
        view_port=free_port(),
        metrics_port=free_port(),
        metrics_host="127.0.0.1",
    )


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Coordinator]:
    settings = settings_for(folder)
    task = asyncio.create_task(main.run(settings))
    try:
        async with aiohttp.ClientSession() as session:
            coordinator = Coordinator(settings, session)
            await until_serving(coordinator)
            yield coordinator
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until_serving(coordinator: Coordinator) -> None:
    async with asyncio.timeout(20):
        while True:
            with suppress(aiohttp.ClientError):
                assert await coordinator.metrics("/healthz") == "ok"
                return
            await asyncio.sleep(0.02)


async def test_a_worker_proves_itself_and_is_told_what_to_be(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        worker = await coordinator.shake(WORKER)
        welcome = await worker.expect(Welcome)
        assert (welcome.protocol, welcome.coordinator_incarnation) == (1, 2)
        operator = await coordinator.connect(OPERATOR)
        await operator.send(DIRECTIVE)
        await worker.send(Beat(seq=1))
        directive = await worker.expect(WorkerDirective)
        assert (directive.state, directive.run) == ("park", 1)
        view = await operator.expect(JobView, lambda view: view.run == 1)
        assert (view.epoch, view.directive_number) == (3, 1)
        assert (view.workers[0].pod_uid, view.workers[0].connected) == ("pod-0", True)
        await worker.socket.close()
        started = time.monotonic()
        await operator.expect(JobView, lambda view: not view.workers[0].connected)
        assert time.monotonic() - started < 1.0


@pytest.mark.parametrize(
    ("hello", "role", "want"),
    [
        pytest.param(replace(WORKER, job_uid="other"), "worker", "wrong-job", id="other job"),
        pytest.param(OPERATOR, "worker", "protocol", id="operator at the workers' socket"),
        pytest.param(
            replace(WORKER, protocol_min=7, protocol_max=9), "worker", "protocol", id="newer peer"
        ),
        pytest.param(b'{"t":"nonsense"}', "operator", "protocol", id="unknown frame"),
        pytest.param(b"GET / HTTP/1.1", "worker", "protocol", id="not JSON"),
        pytest.param(Beat(seq=1), "worker", "protocol", id="no Hello first"),
    ],
)
async def test_refused_before_the_proof(
    tmp_path: Path, hello: Frame | bytes, role: str, want: str
) -> None:
    async with running(tmp_path) as coordinator:
        client = await coordinator.open(role)
        await client.send(hello)
        refused = await client.receive()
        assert isinstance(refused, Refused)
        assert refused.reason == want
        assert await client.receive() is None
        assert f'rtj_refused_hellos_total{{reason="{want}"}} 1.0' in await coordinator.metrics()


@pytest.mark.parametrize("hello", [WORKER, OPERATOR], ids=["worker", "operator"])
async def test_a_wrong_key_is_refused_at_both_sockets(tmp_path: Path, hello: Hello) -> None:
    async with running(tmp_path) as coordinator:
        client = await coordinator.shake(hello, key=secrets.token_bytes(32))
        refused = await client.receive()
        assert isinstance(refused, Refused)
        assert refused.reason == "bad-proof"
        assert await client.receive() is None
        operator = await coordinator.connect(OPERATOR)
        view = await operator.expect(JobView)
        assert (view.refused_hellos, view.workers) == (1, ())


@pytest.mark.parametrize("hello", [WORKER, OPERATOR], ids=["worker", "operator"])
async def test_a_proof_beyond_ascii_is_refused_like_any_wrong_one(
    tmp_path: Path, hello: Hello
) -> None:
    async with running(tmp_path) as coordinator:
        client = await coordinator.open(hello.role)
        await client.send(hello)
        await client.expect(Challenge)
        await client.send(Proof(proof="é" * 64))
        refused = await client.receive()
        assert isinstance(refused, Refused)
        assert refused.reason == "bad-proof"
        assert 'rtj_refused_hellos_total{reason="bad-proof"} 1.0' in await coordinator.metrics()


async def test_who_is_not_expected_or_of_the_past_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        operator = await coordinator.connect(OPERATOR)
        newer = replace(WORKER, incarnation=4)
        worker = await coordinator.connect(newer)
        await operator.send(DIRECTIVE)
        await worker.send(Beat(seq=1))
        await operator.expect(JobView, lambda view: bool(view.workers))

        for hello, want in (
            (replace(WORKER, pod_uid="pod-0-old", incarnation=3), "stale-incarnation"),
            (replace(WORKER, pod_uid="stranger", slot=1), "not-expected"),
            (replace(OPERATOR, epoch=2), "stale-epoch"),
        ):
            client = await coordinator.shake(hello)
            refused = await client.receive()
            assert isinstance(refused, Refused)
            assert refused.reason == want

        # A pod that took part and is no longer wanted is let in, to be told to exit.
        await operator.send(replace(DIRECTIVE, number=2, pods={"pod-0b": 0}))
        assert (await worker.expect(WorkerDirective, lambda d: d.state == "exit")).run == 1
        again = await coordinator.connect(newer)
        await again.send(Beat(seq=2))
        await again.expect(WorkerDirective, lambda d: d.state == "exit")


async def test_a_client_that_says_nothing_is_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "HANDSHAKE_SECONDS", 0.2)
    async with running(tmp_path) as coordinator:
        silent = await coordinator.open("worker")
        assert await silent.receive() is None
        half = await coordinator.open("operator")
        await half.send(OPERATOR)
        await half.expect(Challenge)
        assert await half.receive() is None
        assert 'rtj_refused_hellos_total{reason="timeout"} 2.0' in await coordinator.metrics()


async def test_nonsense_after_the_handshake_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as coordinator:
        operator = await coordinator.connect(OPERATOR)
        worker = await coordinator.connect(WORKER)
        await operator.send(DIRECTIVE)
        for _ in range(3):
            await worker.send(b'{"t":"beat","seq":"many"}')
            await worker.send(b'{"t":"later"}')
            await worker.send(DIRECTIVE)
            await worker.send(WorkerDirective(state="park"))
            await operator.send(b"[]")
        await worker.send(b'{"t":"beat","seq":1,"invented_later":{"x":1}}')
        assert (await worker.expect(WorkerDirective)).state == "park"
        await operator.send(replace(DIRECTIVE, number=2))
        await operator.expect(JobView, lambda view: view.directive_number == 2)
        ignored = [
            r for r in caplog.records if "ignored" in r.getMessage() and r.levelname == "WARNING"
        ]
        assert len(ignored) == 2, "once a connection"
        shown = await coordinator.metrics()
        assert 'rtj_bad_frames_total{reason="malformed"} 12.0' in shown
        assert 'rtj_bad_frames_total{reason="misplaced"} 3.0' in shown


SEALING_WORKER = replace(WORKER, capabilities=capabilities.AGENT)
SEALING_OPERATOR = replace(OPERATOR, capabilities=capabilities.OPERATOR)


async def test_sealed_frames_go_both_ways_beside_a_client_of_an_earlier_version(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as coordinator:
        worker = await coordinator.connect(SEALING_WORKER)
        operator = await coordinator.connect(SEALING_OPERATOR)
        earlier = await coordinator.connect(OPERATOR)
        assert worker.channel is not None
        assert operator.channel is not None
        assert earlier.channel is None
        await operator.send(DIRECTIVE)
        await worker.send(Beat(seq=1))
        assert (await worker.expect(WorkerDirective)).run == 1
        for client in (operator, earlier):
            await client.expect(JobView, lambda view: bool(view.workers) and view.run == 1)


async def test_what_is_not_sealed_or_comes_twice_ends_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        for number in range(3):
            operator = await coordinator.connect(SEALING_OPERATOR)
            assert operator.channel is not None
            told = operator.channel.seal(encode(DIRECTIVE))
            match number:
                case 0:
                    await operator.socket.send_str(encode(DIRECTIVE).decode())
                case 1:
                    await operator.socket.send_bytes(told.replace(b'"run":1', b'"run":7'))
                case _:
                    await operator.socket.send_bytes(told)
                    await operator.socket.send_bytes(told)
            while await operator.receive() is not None:
                continue
        assert 'rtj_bad_frames_total{reason="forged"} 3.0' in await coordinator.metrics()
        view = await (await coordinator.connect(OPERATOR)).expect(JobView)
        assert (view.directive_number, view.run) == (1, 1), "only the frame that was whole"


async def test_nobody_on_the_way_can_have_the_sides_do_without_seals(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        key = coordinator.settings.key
        client = await coordinator.open("operator")
        # On the way the client's announcement is struck out of its Hello.
        await client.send(OPERATOR)
        stripped = await client.expect(Challenge)
        assert stripped.capabilities == ()
        hello = encode(SEALING_OPERATOR)
        assert not auth.proves(key, "server", hello, stripped.nonce, stripped.proof)
        # Or the coordinator's out of its Challenge.
        client = await coordinator.open("operator")
        await client.send(SEALING_OPERATOR)
        whole = await client.expect(Challenge)
        assert whole.capabilities == capabilities.COORDINATOR
        assert not auth.proves(key, "server", hello, whole.nonce, whole.proof)
        await client.send(Proof(proof=auth.proof(key, "client", hello, whole.nonce)))
        assert (await client.expect(Refused)).reason == "bad-proof"


async def test_words_and_fields_of_a_newer_worker_are_told_once_and_read_around(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(tmp_path) as coordinator:
        operator = await coordinator.connect(OPERATOR)
        await operator.send(DIRECTIVE)
        worker = await coordinator.connect(WORKER)
        for number in range(1, 4):
            await worker.send(
                b'{"t":"beat","seq":%d,"launcher":{"state":"thawing","run":1},"gpus":8}' % number
            )
        view = await operator.expect(
            JobView, lambda view: bool(view.workers) and view.workers[0].launcher.run == 1
        )
        assert view.workers[0].launcher.state == "joining"
        told = [r for r in caplog.records if "does not know" in r.getMessage()]
        assert len(told) == 1
        assert "thawing" in told[0].getMessage()
        assert 'rtj_bad_frames_total{reason="malformed"}' not in await coordinator.metrics()


async def test_a_frame_beyond_the_limit_ends_only_that_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as coordinator:
        operator = await coordinator.connect(OPERATOR)
        worker = await coordinator.connect(WORKER)
        await worker.send(b'{"t":"beat","seq":1,"x":"' + b"x" * 300_000 + b'"}')
        assert await worker.receive() is None
        await operator.send(DIRECTIVE)
        await operator.expect(JobView, lambda view: view.directive_number == 1)
        told = [r for r in caplog.records if "connection closed" in r.getMessage()]
        assert [record.levelname for record in told] == ["WARNING"]
        assert 'rtj_bad_frames_total{reason="oversized"} 1.0' in await coordinator.metrics()


async def test_a_second_connection_of_a_pod_replaces_the_first(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        operator = await coordinator.connect(OPERATOR)
        await operator.send(DIRECTIVE)
        first = await coordinator.connect(WORKER)
        await first.send(Beat(seq=1))
        await first.expect(WorkerDirective)
        second = await coordinator.connect(WORKER)
        await second.send(Beat(seq=2))
        await second.expect(WorkerDirective)
        while await first.receive() is not None:
            continue
        view = await operator.expect(JobView, lambda view: bool(view.workers))
        assert [worker.connected for worker in view.workers] == [True]


async def test_only_the_highest_epoch_directs_and_all_may_look(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        old = await coordinator.connect(OPERATOR)
        standby = await coordinator.connect(OPERATOR)
        await old.send(DIRECTIVE)
        for client in (old, standby):
            await client.expect(JobView, lambda view: view.directive_number == 1)
        leader = await coordinator.connect(replace(OPERATOR, epoch=4))
        await old.send(replace(DIRECTIVE, number=9, run=7))
        await leader.send(replace(DIRECTIVE, epoch=4, number=2, run=2))
        for client in (old, standby, leader):
            view = await client.expect(JobView, lambda view: view.directive_number == 2)
            assert (view.epoch, view.run) == (4, 2)
        await leader.send(replace(DIRECTIVE, epoch=4, number=1, run=8))
        await leader.send(replace(DIRECTIVE, epoch=4, number=3, run=2, restart=0))
        view = await leader.expect(JobView, lambda view: view.directive_number == 3)
        assert view.run == 2
        assert "rtj_stale_directives_total 2.0" in await coordinator.metrics()


async def test_the_view_is_repeated_without_change(tmp_path: Path) -> None:
    async with running(tmp_path) as coordinator:
        operator = await coordinator.connect(OPERATOR)
        await operator.expect(JobView)
        started = time.monotonic()
        await operator.expect(JobView)
        assert 4.0 < time.monotonic() - started < 7.0


async def test_sigterm_ends_it_within_a_second_and_its_word_is_kept(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    (tmp_path / "key").write_text(settings.key.hex())
    environment = os.environ | {
        names.ENV_JOB_UID: JOB,
        names.ENV_JOB_NAME: "job",
        names.ENV_INCARNATION: "2",
        names.ENV_KEY_FILE: str(tmp_path / "key"),
        names.ENV_RUN_DIR: str(tmp_path),
        names.ENV_STORE_PORT: str(settings.store_port),
        names.ENV_WORKER_PORT: str(settings.worker_port),
        names.ENV_VIEW_PORT: str(settings.view_port),
        names.ENV_METRICS_PORT: str(settings.metrics_port),
        names.ENV_METRICS_HOST: "127.0.0.1",
    }
    command = (sys.executable, "-m", "rtj_trainer.coordinator.main")
    for attempt in (1, 2):
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        try:
            async with aiohttp.ClientSession() as session:
                coordinator = Coordinator(settings, session)
                await until_serving(coordinator)
                operator = await coordinator.connect(OPERATOR)
                await coordinator.connect(WORKER)
                if attempt == 1:
                    await operator.send(DIRECTIVE)
                await operator.expect(JobView, lambda view: view.directive_number == 1)
                await asyncio.wait_for(_kept(tmp_path), 5)
                started = time.monotonic()
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 5) == 0
                assert time.monotonic() - started < 1.0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _kept(folder: Path) -> None:
    while not (folder / "coordinator.json").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=names.ENV_JOB_UID):
        Settings.load({})
    (tmp_path / "key").write_text("not hex")
    environment = {
        names.ENV_JOB_UID: "u",
        names.ENV_JOB_NAME: "llama",
        names.ENV_INCARNATION: "0",
        names.ENV_KEY_FILE: str(tmp_path / "key"),
    }
    with pytest.raises(SettingsError, match="hex"):
        Settings.load(environment)
    (tmp_path / "key").write_text("ab" * 32)
    assert Settings.load(environment).store_host == "llama-coordinator"
    with pytest.raises(SettingsError, match="RTJ_VIEW_PORT is 'x'"):
        Settings.load(environment | {names.ENV_VIEW_PORT: "x"})
