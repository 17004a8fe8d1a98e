"""Training processes that start with everything imported.

Importing torch, FSDP and NVRx costs seconds of CPU for each rank at each in-job restart. So the
launcher, when it has imported them once itself and before it has any thread, forks a server; the
server forks a rank whenever the launcher asks for one. A rank is a session of its own, as one
started by exec would be, and dies with the server, which dies with the launcher.

What a rank cannot have that way: a setting that a library reads when it is imported and that the
script changes just before. RTJ_WARM=0 turns all this off.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

from rtj_trainer import prctl

log = logging.getLogger(__name__)

_AUTO: Final = "rtj_trainer.auto"
# What training scripts import. A missing one is left out.
MODULES: Final = (
    "torch._dynamo",  # the first optimizer imports it
    "torch.distributed.fsdp",
    "torch.distributed.device_mesh",
    "torch.distributed.checkpoint.state_dict",
    "nvidia_resiliency_ext.fault_tolerance",
    "nvidia_resiliency_ext.inprocess",
    "rtj_trainer.inprocess",
    "rtj_trainer.checkpoint.saver",
    _AUTO,
)
_ENV_OFF: Final = "RTJ_WARM"
_ENV_OPENBLAS: Final = "OPENBLAS_NUM_THREADS"
_MAX_REQUEST_BYTES: Final = 1024 * 1024
_START_TIMEOUT_SECONDS: Final = 30.0
_SESSION_SECONDS: Final = 5.0
_SESSION_POLL_SECONDS: Final = 0.001
_INT: Final = struct.Struct("i")


class NotWarm(Exception):
    """This program cannot be started warm; the text says why."""


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """Keep OpenBLAS, which numpy loads, from starting threads when it is imported inside.

    Warm ranks keep it at one thread; torch's own threads are not touched.
    """
    if _ENV_OPENBLAS in os.environ:
        yield
        return
    os.environ[_ENV_OPENBLAS] = "1"
    yield
    del os.environ[_ENV_OPENBLAS]


def import_all() -> None:
    """Import what training scripts need; done by the launcher while nobody waits."""
    for module in MODULES:
        try:
            importlib.import_module(module)
        except ImportError as error:
            log.warning("not imported beforehand: %s: %s", module, error)


@dataclass(frozen=True, slots=True)
class Program:
    """A Python command line as ft_launcher makes it."""

    # The file, module or code, and its arguments.
    argv: tuple[str, ...]
    # Python's option that says what it is; "" for a file.
    option: str = ""

    @classmethod
    def parse(cls, command: Sequence[str]) -> "Program":
        """From `PYTHON [-u] FILE`, `-m MODULE` or `-c CODE` with arguments; raises NotWarm."""
        if not command or command[0] != sys.executable:
            raise NotWarm(f"{command[:1]} is not this Python")
        rest = [*command[1:]]
        while rest and rest[0] == "-u":
            del rest[0]
        option = rest.pop(0) if rest and rest[0] in ("-m", "-c") else ""
        if not rest or (rest[0].startswith("-") and option != "-c"):
            raise NotWarm(f"option {rest[:1]} of Python")
        if not option and not Path(rest[0]).is_file():
            raise NotWarm(f"{rest[0]} is not a file")  # Python says so better
        return cls(tuple(rest), option)

    def run(self) -> None:
        """Be that program in this process."""
        sys.argv = [*self.argv]
        match self.option:
            case "-m":
                sys.path[0] = str(Path.cwd())
                runpy.run_module(self.argv[0], run_name="__main__", alter_sys=True)
            case "-c":
                sys.path[0] = ""
                sys.argv[0] = "-c"
                sys.modules["__main__"] = main = ModuleType("__main__")
                exec(compile(self.argv[0], "<string>", "exec"), main.__dict__)
            case _:
                sys.path[0] = str(Path(self.argv[0]).absolute().parent)
                runpy.run_path(self.argv[0], run_name="__main__")


@dataclass(slots=True)
class WarmProcess:
    """A rank forked by the server, with what the launcher uses of subprocess.Popen."""

    pid: int
    args: tuple[str, ...]
    _status: socket.socket = field(repr=False)
    returncode: int | None = None
    stdin: None = None
    stdout: None = None
    stderr: None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._collect(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; raises subprocess.TimeoutExpired."""
        code = self._collect(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal the process unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _collect(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            data = self._status.recv(_INT.size)
            # Without a word the server is dead, and has taken its ranks with it.
            status = _INT.unpack(data)[0] if len(data) == _INT.size else signal.SIGKILL
            self.returncode = os.waitstatus_to_exitcode(status)
            self._status.close()
        return self.returncode


class Forge:
    """The launcher's side: has the server fork ranks."""

    def __init__(self, server: socket.socket, pid: int) -> None:
        self._server = server
        self.pid = pid

    @classmethod
    def start(cls, close: Iterable[int] = ()) -> "Forge | None":
        """Fork the server, which closes the descriptors in `close`.

        None when turned off, or when this process has threads already, which a fork would lose.
        """
        if os.environ.get(_ENV_OFF) == "0":
            return None
        if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
            log.warning("ranks start cold: the launcher has threads before its server is forked")
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_REQUEST_BYTES)
        launcher = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            _be_server(theirs, launcher, close)
        theirs.close()
        return cls(ours, pid)

    def spawn(
        self, command: Sequence[str], env: Mapping[str, str], stdout: int, stderr: int
    ) -> WarmProcess:
        """Start a rank; raises NotWarm when that takes another Python, or the server is dead."""
        program = Program.parse(command)
        ours, theirs = socket.socketpair()
        request = json.dumps((program.argv, program.option, dict(env), str(Path.cwd())))
        descriptors = array.array("i", (theirs.fileno(), stdout, stderr))
        with theirs:
            try:
                self._server.sendmsg(
                    [request.encode(errors="surrogateescape")],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
                )
            except OSError as error:
                raise NotWarm(f"server of warm ranks: {error}") from error
        ready, _, _ = select.select([ours], [], [], _START_TIMEOUT_SECONDS)
        data = ours.recv(_INT.size) if ready else b""
        if len(data) != _INT.size:
            raise NotWarm("server of warm ranks does not answer")
        return WarmProcess(_INT.unpack(data)[0], tuple(command), ours)


def _be_server(requests: socket.socket, launcher: int, close: Iterable[int]) -> NoReturn:
    """Fork ranks until the launcher is gone. Never returns into the launcher's code."""
    try:
        _die_with(launcher)
        for descriptor in close:
            os.close(descriptor)
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        gc.freeze()  # collections in ranks are faster, and copy nothing of what is shared
        _Server(requests).serve()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


class _Server:
    """Single-threaded, so that a fork of it is whole."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._ranks: dict[int, socket.socket] = {}

    def serve(self) -> None:
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        while True:
            ready, _, _ = select.select([self._requests, woken], [], [])
            if woken in ready:
                woken.recv(4096)
                self._bury()
            if self._requests in ready and not self._take():
                return

    def _bury(self) -> None:
        while self._ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._ranks.pop(pid) as launcher, contextlib.suppress(OSError):
                launcher.sendall(_INT.pack(status))

    def _take(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._requests, _MAX_REQUEST_BYTES, 3)
        if not data:
            return False
        status, stdout, stderr = descriptors
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_rank(data, (stdout, stderr), server)
        _await_session(pid)
        launcher = socket.socket(fileno=status)
        launcher.sendall(_INT.pack(pid))
        self._ranks[pid] = launcher
        os.close(stdout)
        os.close(stderr)
        return True


def _await_session(pid: int) -> None:
    """Until a rank leads a group of its own: whoever signals its group meant no other process."""
    deadline = time.monotonic() + _SESSION_SECONDS
    while os.getsid(pid) != pid and time.monotonic() < deadline:
        time.sleep(_SESSION_POLL_SECONDS)


def _be_rank(data: bytes, streams: tuple[int, int], server: int) -> NoReturn:
    code = 1
    try:
        argv, option, env, folder = json.loads(data.decode(errors="surrogateescape"))
        _become_session(streams, server)
        os.environ.clear()
        os.environ.update(env)
        os.chdir(folder)
        # The command line still says launcher; `ps` and `top` show this.
        prctl.set_name(f"rank-{env.get('RANK', '')}")
        _seed_again()
        if _AUTO in sys.modules:
            sys.modules[_AUTO].install()
        code = _run(Program(tuple(argv), option))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _become_session(streams: tuple[int, int], server: int) -> None:
    """Be what Popen(start_new_session=True) would have made."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    _die_with(server)
    for descriptor, number in zip(streams, (1, 2), strict=True):
        os.dup2(descriptor, number)
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208


def _run(program: Program) -> int:
    """Run it to its end, exit handlers included; the code it would have exited with."""
    try:
        program.run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)  # noqa: T201 - as Python does
    except BaseException:
        traceback.print_exc()
        code = 1
    # As the interpreter ends a process, but for taking itself apart.
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    return code


def _seed_again() -> None:
    """Undo what forks of one process share: random states, and torch's number of threads."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if (torch := sys.modules.get("torch")) is not None and threads.isdecimal():
        torch.set_num_threads(int(threads))


def _die_with(parent: int) -> None:
    prctl.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
