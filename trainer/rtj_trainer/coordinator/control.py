"""The control container: keeps nvrx-control of exactly one run alive, apart from the coordinator.

A container of its own, so that a crash of the coordinator costs no run: the rendezvous store lives
in nvrx-control. It decides nothing. The coordinator names the run; a newer one ends the older hard,
and a run that died is only told (see control_wire).
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from rtj_api import names
from rtj_trainer.coordinator.control_health import serve_health
from rtj_trainer.coordinator.control_wire import (
    MAX_LINE_BYTES,
    ControlRequest,
    ControlStatus,
    decode_request,
    encode_line,
)
from rtj_trainer.nvrx.control import (
    ControlOrder,
    Ended,
    Forked,
    Prepared,
    arguments,
    decode_note,
    encode_order,
)
from rtj_trainer.nvrx.rendezvous import Rendezvous
from rtj_trainer.nvrx.store import StoreClient, StoreError

log = logging.getLogger("rtj.control")

_READY_POLL_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 1.0
# The prepared process forks and buries within milliseconds, or it is stopped and never will.
_ANSWER_SECONDS: Final = 3.0
_MAX_CLIENTS: Final = 8


class Forker:
    """The prepared process (rtj_trainer.nvrx.control) and the one nvrx-control it forked."""

    def __init__(self, store_port: int) -> None:
        self._store_port = store_port
        self._process: asyncio.subprocess.Process | None = None
        self._prepared = asyncio.Event()
        self._pid = 0
        self._forked = asyncio.Event()
        self._ended = asyncio.get_running_loop().create_future()
        self._ended.set_result(0)

    async def keep_prepared(self) -> None:
        """Start the prepared process and start it again whenever it ends."""
        while True:
            self._process = await self._start()
            await self._follow(self._process)
            log.warning("prepared nvrx-control ended; starting another")
            await asyncio.sleep(_RETRY_SECONDS)

    async def launch(self, request: ControlRequest) -> asyncio.Future[int]:
        """Fork nvrx-control of a run; the future becomes its exit code."""
        await self._prepared.wait()
        assert self._process is not None
        assert self._process.stdin is not None
        self._ended = asyncio.get_running_loop().create_future()
        self._forked.clear()
        argv = arguments(request.nodes, request.rendezvous_id, self._store_port)
        self._process.stdin.write(encode_order(ControlOrder(argv=argv)))
        # Without the process id it could not be ended.
        await self._answer(asyncio.create_task(self._forked.wait()))
        return self._ended

    async def end(self) -> None:
        """Kill the running nvrx-control hard and wait until it is gone."""
        if not self._ended.done() and self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        await self._answer(self._ended)

    async def _answer(self, answer: asyncio.Future[Any]) -> None:
        """Wait for the prepared process; one that does not answer is ended, its child with it."""
        done, _ = await asyncio.wait([answer], timeout=_ANSWER_SECONDS)
        if not done:
            log.error("prepared nvrx-control did not answer for %.0f s; ended", _ANSWER_SECONDS)
            self.kill()
            await asyncio.wait([answer])

    def kill(self) -> None:
        """Kill everything; the child dies with its parent."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rtj_trainer.nvrx.control",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Threads of a math library would make the fork unsafe.
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            match decode_note(line):
                case Prepared(unpatched=unpatched):
                    for patch in unpatched:
                        log.warning("NVRx keeps its own wait: %s", patch)
                    self._prepared.set()
                case Forked(pid=pid):
                    self._pid = pid
                    self._forked.set()
                case Ended(exit_code=code):
                    self._finish(code)
        self._prepared.clear()
        code = await process.wait()
        self._finish(code or 1)

    def _finish(self, code: int) -> None:
        self._pid = 0
        self._forked.set()
        if not self._ended.done():
            self._ended.set_result(code)


class Supervisor:
    """Makes the wanted run be the running one and tells every connected coordinator."""

    def __init__(self, forker: Forker, store_port: int, mark: Path) -> None:
        self._forker = forker
        self._store_port = store_port
        # Highest run ever started in this pod, so that a restarted container starts none twice.
        self._mark = mark
        self._wanted: ControlRequest | None = None
        self._changed = asyncio.Event()
        self._clients: set[asyncio.StreamWriter] = set()
        self._status = ControlStatus(run=self._marked())

    def request(self, wanted: ControlRequest) -> None:
        """Take the coordinator's wish; an older run than the last is ignored."""
        if wanted.run > max(self._status.run, -1 if self._wanted is None else self._wanted.run):
            self._wanted = wanted
            self._changed.set()

    async def serve(self) -> None:
        """Start wanted runs, one after the other, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = self._wanted
            if wanted is not None and wanted.run > self._status.run:
                await self._run(wanted)

    async def _run(self, wanted: ControlRequest) -> None:
        """One run until it ends or a newer one is wanted."""
        self._mark.write_text(str(wanted.run))
        self._tell(ControlStatus(run=wanted.run, state="starting"))
        ended = await self._forker.launch(wanted)
        ready = asyncio.create_task(self._tell_when_ready(wanted))
        newer = asyncio.create_task(self._changed.wait())
        await asyncio.wait([ended, newer], return_when=asyncio.FIRST_COMPLETED)
        newer.cancel()
        ready.cancel()
        await self._forker.end()
        log.info("nvrx-control of run %d ended with %d", wanted.run, ended.result())
        self._tell(ControlStatus(run=wanted.run, state="exited", exit_code=ended.result()))

    async def _tell_when_ready(self, wanted: ControlRequest) -> None:
        # Another program's start: nothing but asking tells it.
        while not await self._serves(wanted.rendezvous_id):  # noqa: ASYNC110
            await asyncio.sleep(_READY_POLL_SECONDS)
        self._tell(ControlStatus(run=wanted.run, state="running"))

    async def _serves(self, rendezvous_id: str) -> bool:
        try:
            store = await StoreClient.connect("127.0.0.1", self._store_port)
        except StoreError:
            return False
        try:
            return await Rendezvous(store, rendezvous_id).exists()
        except StoreError:
            return False
        finally:
            store.close()

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a coordinator."""
        if len(self._clients) >= _MAX_CLIENTS:
            writer.transport.abort()
            return
        self._clients.add(writer)
        try:
            writer.write(encode_line(self._status))
            while line := await reader.readline():
                self._take(line)
        except (OSError, ValueError) as error:
            log.warning("connection of the coordinator ended: %r", error)
        finally:
            self._clients.discard(writer)
            writer.transport.abort()

    def _take(self, line: bytes) -> None:
        try:
            self.request(decode_request(line))
        except msgspec.DecodeError as error:
            log.warning("request ignored: %s", error)

    def _tell(self, status: ControlStatus) -> None:
        log.info("run %d: %s", status.run, status.state)
        self._status = status
        for writer in self._clients:
            # A status is some bytes a run; a coordinator that reads none of them is gone.
            if writer.transport.get_write_buffer_size() > 16 * MAX_LINE_BYTES:
                writer.transport.abort()
            else:
                writer.write(encode_line(status))

    def _marked(self) -> int:
        try:
            return int(self._mark.read_text())
        except (FileNotFoundError, ValueError):
            return -1


async def run(socket: Path, store_port: int, health_host: str) -> None:
    """Serve until SIGTERM or SIGINT, then end everything at once."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    forker = Forker(store_port)
    supervisor = Supervisor(forker, store_port, socket.with_suffix(".run"))
    server = await asyncio.start_unix_server(supervisor.client, socket, limit=MAX_LINE_BYTES)
    health = await serve_health(health_host, names.PORT_CONTROL_HEALTH)
    tasks = [asyncio.create_task(forker.keep_prepared()), asyncio.create_task(supervisor.serve())]
    stopped = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()
    finally:
        forker.kill()
        server.close()
        health.close()
        for task in (*tasks, stopped):
            task.cancel()


def main() -> None:
    """Entry point of the control container."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    run_dir = Path(os.environ.get(names.ENV_RUN_DIR, names.RUN_DIR))
    store_port = int(os.environ.get(names.ENV_STORE_PORT, names.PORT_STORE))
    socket = run_dir / Path(names.CONTROL_SOCKET).name
    run_dir.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    asyncio.run(run(socket, store_port, os.environ.get(names.ENV_METRICS_HOST, "")))


if __name__ == "__main__":
    main()
