"""The torch-free store client and the control supervisor against the real nvrx-control."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from rtj_api import names
from rtj_trainer.coordinator.control_wire import (
    ControlRequest,
    ControlStatus,
    decode_status,
    encode_line,
)
from rtj_trainer.nvrx.rendezvous import Rendezvous, Rounds
from rtj_trainer.nvrx.store import StoreClient, StoreError
from tests.ports import free_port

_DEADLINE_SECONDS = 60.0


async def _until[T](what: str, read: Callable[[], Awaitable[T | None]]) -> T:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        value = await read()
        if value is not None:
            return value
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {_DEADLINE_SECONDS} s: {what}")


@dataclass
class Control:
    """A running control container and our line to it."""

    process: asyncio.subprocess.Process
    port: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seen: list[ControlStatus] = field(default_factory=list)

    def ask(self, run: int, nodes: int = 2) -> None:
        request = ControlRequest(run=run, nodes=nodes, rendezvous_id=f"job-{run}")
        self.writer.write(encode_line(request))

    async def status(self, run: int, state: str) -> ControlStatus:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while True:
                status = decode_status(await self.reader.readline())
                self.seen.append(status)
                if (status.run, status.state) == (run, state):
                    return status

    def store(self) -> Awaitable[StoreClient]:
        return StoreClient.connect("127.0.0.1", self.port)


# Nobody else's, so that other controls on this host may have the port too.
_HEALTH_HOST = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250 + 1}.9"


async def _start_control(folder: Path, port: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rtj_trainer.coordinator.control",
        env=os.environ
        | {
            "RTJ_RUN_DIR": str(folder),
            "RTJ_STORE_PORT": str(port),
            "RTJ_METRICS_HOST": _HEALTH_HOST,
        },
    )


@asynccontextmanager
async def _control(folder: Path) -> AsyncIterator[Control]:
    port = free_port()
    process = await _start_control(folder, port)
    try:
        reader, writer = await _until("control socket", lambda: _open(folder / "control.sock"))
        yield Control(process, port, reader, writer)
        writer.close()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _open(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    try:
        return await asyncio.open_unix_connection(path)
    except OSError:
        return None


@dataclass
class Members:
    """Processes that join the rendezvous with NVRx's own code."""

    process: asyncio.subprocess.Process
    pids: dict[int, int] = field(default_factory=dict)

    async def join(self, group_rank: int, address: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"join {group_rank} {address}\n".encode())
        while group_rank not in self.pids:
            await self._line()

    async def joined(self) -> tuple[int, int, int]:
        """The next (GROUP_RANK, rank, round) that somebody was given."""
        while True:
            words = await self._line()
            if words[0] == "joined":
                return int(words[1]), int(words[2]), int(words[3])

    async def _line(self) -> list[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(_DEADLINE_SECONDS):
            words = (await self.process.stdout.readline()).decode().split()
        if words[0] == "forked":
            self.pids[int(words[1])] = int(words[2])
        return words

    def kill(self, group_rank: int) -> None:
        os.kill(self.pids[group_rank], 9)


@asynccontextmanager
async def _members(port: int, rendezvous_id: str, nodes: int) -> AsyncIterator[Members]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parent / "nvrx_member.py"),
        str(port),
        rendezvous_id,
        str(nodes),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        yield Members(process)
    finally:
        process.kill()
        await process.wait()


async def _rounds(rendezvous: Rendezvous, want: Callable[[Rounds], bool]) -> Rounds:
    async def read() -> Rounds | None:
        rounds = await rendezvous.read()
        return rounds if want(rounds) else None

    return await _until("rounds as wanted", read)


async def test_a_dead_member_is_cured_in_open_and_closed_rounds(tmp_path: Path) -> None:
    async with _control(tmp_path) as control, _members(control.port, "job-1", 2) as members:
        control.ask(1)
        await control.status(1, "running")
        store = await control.store()
        rendezvous = Rendezvous(store, "job-1")
        assert await rendezvous.read() == Rounds(closed=-1, open=True)
        assert [await rendezvous.take_launch(p) for p in (0, 1, 1)] == [0, 0, 1]

        # Ghost in an open round: cleared, the round closes with the two that live.
        await members.join(10_000, "10.0.0.2")
        ghost = (await _rounds(rendezvous, lambda r: len(r.participants) == 1)).participants[0]
        assert (ghost.position, ghost.launch, ghost.addr) == (1, 0, "10.0.0.2")
        members.kill(10_000)
        assert await rendezvous.clear(ghost)
        await members.join(10_001, "10.0.0.2")
        await members.join(0, "10.0.0.1")
        assert sorted([await members.joined() for _ in range(2)]) == [(0, 0, 0), (10_001, 1, 0)]
        closed = await _rounds(rendezvous, lambda r: r.closed == 0)
        assert {(p.position, p.launch, p.rank) for p in closed.participants} == {
            (0, 0, 0),
            (1, 1, 1),
        }

        # A round is opened once; asking again or for an open one changes nothing.
        assert await rendezvous.open_next(0)
        assert await rendezvous.open_next(0)
        assert not await rendezvous.open_next(1), "round 1 is not closed: 2 must not be opened"
        assert sorted([await members.joined() for _ in range(2)]) == [(0, 0, 1), (10_001, 1, 1)]
        assert not await rendezvous.open_next(0), "round 1 is over: it stays so"
        assert not await rendezvous.clear(ghost), "an entry that somebody else took is left alone"
        assert await store.get("ft_rendezvous_barrier:job-1:round_done_1") == b"1"

        # Position 0 dies while training, a spare takes it: the other keeps its rank.
        members.kill(0)
        assert await rendezvous.open_next(1)
        await members.join(1, "10.0.0.3")
        assert sorted([await members.joined() for _ in range(2)]) == [(1, 0, 2), (10_001, 1, 2)]
        await rendezvous.release_master(2)
        assert await store.get("torch.rendezvous.job-1.2/MASTER_ADDR") == b"127.0.0.1"


async def test_a_new_run_replaces_the_old_and_a_dead_run_is_only_told(tmp_path: Path) -> None:
    async with _control(tmp_path) as control:
        control.ask(1)
        await control.status(1, "running")
        old = await control.store()
        started = time.monotonic()
        control.ask(2)
        control.ask(1)
        await control.status(2, "running")
        replaced_seconds = time.monotonic() - started
        assert [(s.run, s.state) for s in control.seen[-3:]] == [
            (1, "exited"),
            (2, "starting"),
            (2, "running"),
        ]
        assert replaced_seconds < 2.0, "a prepared nvrx-control does not import torch again"
        with pytest.raises(StoreError):
            await old.get("ft_rendezvous_barrier:job-1:shutdown")
        new = await control.store()
        assert await new.get("ft_rendezvous_barrier:job-2:shutdown") == b""

        os.kill(_nvrx_control(control.process.pid), 9)
        assert (await control.status(2, "exited")).exit_code == -9
        control.ask(2)
        control.ask(3)
        await control.status(3, "running")
        assert [s.run for s in control.seen[-2:]] == [3, 3], "run 2 is not started again"


async def test_a_restarted_container_starts_no_run_twice(tmp_path: Path) -> None:
    async with _control(tmp_path) as control:
        control.ask(4)
        await control.status(4, "running")
        pid = _nvrx_control(control.process.pid)
        control.process.kill()
        await _until("nvrx-control dies with its container", lambda: _gone(pid))
    async with _control(tmp_path) as control:
        await control.status(4, "exited")
        control.ask(4)
        control.ask(5)
        await control.status(5, "running")
        assert {s.run for s in control.seen[1:]} == {5}


async def test_stopped_processes_of_a_run_do_not_keep_the_next_one_waiting(tmp_path: Path) -> None:
    async with _control(tmp_path) as control:
        control.ask(1)
        await control.status(1, "running")
        for pid in _descendants(control.process.pid):
            os.kill(pid, signal.SIGSTOP)
        control.ask(2)
        await control.status(2, "running")


async def test_a_prepared_process_that_is_stopped_costs_its_run_and_not_the_next(
    tmp_path: Path,
) -> None:
    async with _control(tmp_path) as control:
        control.ask(1)
        await control.status(1, "running")
        os.kill(_nvrx_control(control.process.pid), signal.SIGKILL)
        await control.status(1, "exited")
        (prepared,) = _children(control.process.pid)
        os.kill(prepared, signal.SIGSTOP)
        control.ask(2)
        await control.status(2, "exited")
        control.ask(3)
        await control.status(3, "running")


async def test_health_is_answered_until_the_container_stands_still(tmp_path: Path) -> None:
    async with _control(tmp_path) as control:
        control.ask(1)
        await control.status(1, "running")
        for pid in _descendants(control.process.pid):
            os.kill(pid, signal.SIGSTOP)
        assert await _healthy(), "a restart would not help more than a new run does"
        control.process.send_signal(signal.SIGSTOP)
        assert not await _healthy()
        control.process.send_signal(signal.SIGCONT)
        assert await _healthy()


async def _healthy() -> bool:
    url = f"http://{_HEALTH_HOST}:{names.PORT_CONTROL_HEALTH}/healthz"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as session,
            session.get(url) as response,
        ):
            return (response.status, await response.text()) == (200, "ok")
    except TimeoutError:
        return False


@pytest.mark.parametrize("ready", [True, False], ids=["while it serves", "while it imports"])
async def test_sigterm_ends_it_promptly(tmp_path: Path, ready: bool) -> None:
    async with _control(tmp_path) as control:
        control.ask(1)
        await control.status(1, "running" if ready else "starting")
        pids = _descendants(control.process.pid)
        started = time.monotonic()
        control.process.terminate()
        assert await asyncio.wait_for(control.process.wait(), 5) == 0
        assert time.monotonic() - started < 1.0
        for pid in pids:
            await _until(f"process {pid} is gone", lambda pid=pid: _gone(pid))


async def test_what_is_no_store_is_refused() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreError, match="not a TCPStore"):
            await StoreClient.connect("127.0.0.1", port)


async def test_a_silent_store_is_an_error_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreError, match="did not answer"):
            await StoreClient.connect("127.0.0.1", port, timeout_seconds=0.2)


async def _gone(pid: int) -> bool | None:
    return True if _is_gone(pid) else None


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in children.read_text().split()]


def _descendants(pid: int) -> list[int]:
    found = _children(pid)
    return found + [below for child in found for below in _descendants(child)]


def _nvrx_control(pid: int) -> int:
    """The forked nvrx-control is the child of the container's only child."""
    (prepared,) = _children(pid)
    (control,) = _children(prepared)
    return control
