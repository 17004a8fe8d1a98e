"""Shortens NVRx's fixed waits and makes training processes die with their launcher.

NVRx 0.7 sleeps a whole second at each stop of the workers and polls once a second for the next
round; no flag applies. Together they are two of the three seconds of an in-job restart. Each patch
first checks that it meets the version and the source it was written for, and leaves NVRx as it is
otherwise: slower is better than wrong.
"""

import errno
import inspect
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from types import ModuleType
from typing import Any, Final

from rtj_trainer import prctl
from rtj_trainer.warm import Forge, NotWarm, WarmProcess

log = logging.getLogger(__name__)

SUPPORTED: Final = "0.7."
_STOP_GRACE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05
_JOIN_POLL_SECONDS: Final = 0.1

# Why a program cannot be executed, and what a shell would exit with then.
_NO_PROGRAM: Final = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR})
_EXIT_NOT_EXECUTABLE: Final = 126
_EXIT_NOT_FOUND: Final = 127
_SAY_AND_EXIT: Final = "import sys; print(sys.argv[1], file=sys.stderr); sys.exit(int(sys.argv[2]))"

RankStdio = dict[int, tuple[int, int]]


class Unpatched(Exception):
    """A patch does not fit what is installed."""


def shorten_waits() -> tuple[str, ...]:
    """Apply the patches of waits; returns what was left as it is, with the reason."""
    left: list[str] = []
    for patch in (_shorten_stop, shorten_join_poll):
        try:
            patch()
        except Unpatched as reason:
            left.append(f"{patch.__name__}: {reason}")
    return tuple(left)


def shorten_join_poll() -> None:
    """Poll for an open round every 0.1 s, not every second (launchers and nvrx-control).

    Raises Unpatched.
    """
    from nvidia_resiliency_ext.fault_tolerance import ft_rendezvous_barrier as barrier

    waiting = barrier._RendezvousBarrierState._wait_for_rendezvous_open
    _expect(waiting, "time.sleep(1.0)", 2)
    barrier.time = _ShortSleeps(time)  # pyright: ignore[reportAttributeAccessIssue]


class _ShortSleeps:
    """The time module as that one file sees it, its sleeps cut."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than a poll should take."""
        self._module.sleep(min(seconds, _JOIN_POLL_SECONDS))


def _shorten_stop() -> None:
    from nvidia_resiliency_ext.fault_tolerance import launcher, utils

    _expect(utils.terminate_mp_processes, "time.sleep(1.0)", 1)
    launcher.terminate_mp_processes = terminate_groups


def _expect(function: Callable[..., Any], text: str, count: int) -> None:
    installed = metadata.version("nvidia-resiliency-ext")
    if not installed.startswith(SUPPORTED):
        raise Unpatched(f"nvidia-resiliency-ext {installed} is not {SUPPORTED}x")
    found = inspect.getsource(function).count(text)
    if found != count:
        raise Unpatched(f"{function.__qualname__} has {text!r} {found} times, not {count}")


def terminate_groups(allowed_pgids: Iterable[int]) -> None:
    """End what is left of the workers' process groups: SIGTERM, up to a second, then SIGKILL.

    Does what NVRx's function of the same place does, but returns as soon as the groups are gone.
    """
    # Never our own: a rank that has no group of its own yet would take the launcher with it.
    groups = set(allowed_pgids) - {os.getpgrp()}
    if 1 in groups:
        return
    deadline = time.monotonic() + _STOP_GRACE_SECONDS
    _signal_groups(groups, signal.SIGTERM)
    while (groups := _alive(groups)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    _signal_groups(groups, signal.SIGKILL)


def _alive(groups: set[int]) -> set[int]:
    return {group for group in groups if _signal_group(group, 0)}


def _signal_groups(groups: set[int], number: int) -> None:
    for group in groups:
        _signal_group(group, number)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def bind_workers(stdio: RankStdio, forge: Forge | None = None) -> None:
    """Training processes die with this launcher and write into the agent's pipes.

    With a forge they start with everything imported, where it can. Raises Unpatched when torch
    starts its processes in another way than the one known here.
    """
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    handler = subprocess_handler.SubprocessHandler
    if list(inspect.signature(handler._popen).parameters) != ["self", "args", "env"]:
        raise Unpatched("SubprocessHandler._popen of this torch has other parameters")

    def start(
        self: Any, args: tuple[str, ...], env: dict[str, str]
    ) -> subprocess.Popen[bytes] | WarmProcess:
        output, error = stdio.get(self.local_rank_id, (1, 2))
        if self._stdout is not None:
            output = self._stdout.fileno()
        if self._stderr is not None:
            error = self._stderr.fileno()
        if forge is not None:
            try:
                return forge.spawn(args, env, output, error)
            except NotWarm as reason:
                log.info("local rank %d starts cold: %s", self.local_rank_id, reason)
        return start_cold(args, env, output, error)

    handler._popen = start  # pyright: ignore[reportAttributeAccessIssue]


def start_cold(
    args: tuple[str, ...], env: dict[str, str], output: int, error: int
) -> subprocess.Popen[bytes]:
    """Start a rank by exec. Of a program that is not there or no program, one that says so.

    The elastic agent would end of it, without the program's name, and look like a broken pod.
    """
    try:
        return _popen(args, env, output, error)
    except OSError as reason:
        if reason.errno not in _NO_PROGRAM:
            raise
        text = (
            f"cannot start {args[0]}: {os.strerror(reason.errno)}; correct command or args of "
            "container trainer in spec.template, or its image"
        )
        code = _EXIT_NOT_FOUND if reason.errno == errno.ENOENT else _EXIT_NOT_EXECUTABLE
        return _popen((sys.executable, "-ISc", _SAY_AND_EXIT, text, str(code)), env, output, error)


def _popen(
    args: tuple[str, ...], env: dict[str, str], output: int, error: int
) -> subprocess.Popen[bytes]:
    # PDEATHSIG survives exec, but only a call between fork and exec can set it in time.
    return subprocess.Popen(
        args=args,
        env=env,
        stdout=output,
        stderr=error,
        start_new_session=True,
        preexec_fn=prctl.die_with_parent,
    )
