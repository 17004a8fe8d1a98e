"""What the agent knows from its environment and arguments; nothing else configures it."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rtj_api import names

_PYTHONS: Final = ("python", "python3")
_UNBUFFERED: Final = "-u"
_KEY_BYTES: Final = 32


class ConfigError(Exception):
    """The environment or the command line of the pod cannot be used; says what to change."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One worker pod. Paths and ports differ from the defaults only where several agents share a
    host."""

    job_name: str
    job_uid: str
    slot: int
    incarnation: int
    pod_name: str
    pod_uid: str
    pod_ip: str
    coordinator_host: str
    processes_per_node: int
    device: str
    grace_seconds: float
    key: bytes
    # ft_launcher's arguments that name the training program, already in its form.
    command: tuple[str, ...]
    run_dir: Path
    shm_dir: Path
    termination_log: Path
    worker_port: int = names.PORT_WORKER_SOCKET
    store_port: int = names.PORT_STORE
    metrics_port: int = names.PORT_METRICS
    # "" listens on all addresses.
    metrics_host: str = ""

    @property
    def health_socket(self) -> Path:
        """Where ft_launcher asks whether it may join."""
        return self.run_dir / Path(names.HEALTH_SOCKET).name


def load(environment: Mapping[str, str], arguments: Sequence[str]) -> AgentConfig:
    """The configuration; raises ConfigError."""
    reader = _Reader(environment)
    return AgentConfig(
        job_name=reader.text(names.ENV_JOB_NAME),
        job_uid=reader.text(names.ENV_JOB_UID),
        slot=reader.natural(names.ENV_SLOT),
        incarnation=reader.natural(names.ENV_INCARNATION),
        pod_name=reader.text(names.ENV_POD_NAME),
        pod_uid=reader.text(names.ENV_POD_UID),
        pod_ip=reader.text(names.ENV_POD_IP),
        coordinator_host=reader.text(names.ENV_COORDINATOR_HOST),
        processes_per_node=reader.natural(names.ENV_PROCESSES_PER_NODE),
        device=reader.text(names.ENV_DEVICE, "cuda"),
        grace_seconds=float(reader.natural(names.ENV_GRACE_SECONDS, 30)),
        key=_read_key(Path(reader.text(names.ENV_KEY_FILE, names.KEY_FILE))),
        command=launch_command(arguments),
        run_dir=Path(reader.text(names.ENV_RUN_DIR, names.RUN_DIR)),
        shm_dir=Path(reader.text(names.ENV_SHM_DIR, names.SHM_DIR)),
        termination_log=termination_log(environment),
        worker_port=reader.natural(names.ENV_WORKER_PORT, names.PORT_WORKER_SOCKET),
        store_port=reader.natural(names.ENV_STORE_PORT, names.PORT_STORE),
        metrics_port=reader.natural(names.ENV_METRICS_PORT, names.PORT_METRICS),
        metrics_host=reader.text(names.ENV_METRICS_HOST, ""),
    )


def launch_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """The container's command as ft_launcher takes it; raises ConfigError.

    A `python` in front of `x.py`, `-m module` or `-c code` is dropped, because it is started by its
    own; anything else runs as it is.
    """
    given = list(arguments)
    if given[:1] == ["--"]:
        given = given[1:]
    program = given
    if given and Path(given[0]).name in _PYTHONS:
        program = given[1:]
        while program[:1] == [_UNBUFFERED]:
            program = program[1:]
    if not program:
        raise ConfigError(
            "spec.template: container trainer: command or args must name the training program, "
            "for example `args: [train.py]`"
        )
    if program[0] == "-m" or program[0].endswith(".py"):
        return tuple(program)
    if program[0] == "-c":
        # ft_launcher's own option of that name is another.
        return ("--no-python", sys.executable, *program)
    return ("--no-python", *given)


@dataclass(frozen=True, slots=True)
class _Reader:
    environment: Mapping[str, str]

    def text(self, variable: str, default: str | None = None) -> str:
        value = self.environment.get(variable, default)
        if value is None:
            raise ConfigError(f"environment variable {variable} is not set; the operator sets it")
        return value

    def natural(self, variable: str, default: int | None = None) -> int:
        value = self.text(variable, None if default is None else str(default))
        if not value.isdecimal():
            raise ConfigError(f"environment variable {variable}={value!r} is not a whole number")
        return int(value)


def _read_key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise ConfigError(f"job key {path} cannot be read: {error}") from error
    if len(key) != _KEY_BYTES:
        raise ConfigError(f"job key {path} has {len(key)} bytes, not {_KEY_BYTES}")
    return key


def termination_log(environment: Mapping[str, str]) -> Path:
    """Where the last words go; known even when nothing else can be read."""
    return Path(environment.get(names.ENV_TERMINATION_LOG, names.TERMINATION_LOG))


def from_process(arguments: Sequence[str]) -> AgentConfig:
    """The configuration of this process; raises ConfigError."""
    return load(os.environ, arguments)
