"""What the coordinator's container is told by its environment; nothing else configures it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rtj_api import names


class SettingsError(Exception):
    """The environment cannot be used; says which variable and what to write."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Ports and paths differ from the defaults only where several coordinators share a host."""

    job_uid: str
    incarnation: int
    key: bytes = field(repr=False)
    # Host of the rendezvous store as the workers reach it.
    store_host: str
    run_dir: Path = Path(names.RUN_DIR)
    store_port: int = names.PORT_STORE
    worker_port: int = names.PORT_WORKER_SOCKET
    view_port: int = names.PORT_VIEW_SOCKET
    metrics_port: int = names.PORT_METRICS
    # "" listens on all addresses.
    metrics_host: str = ""

    @classmethod
    def load(cls, environment: Mapping[str, str]) -> Self:
        """Read environment and key; raises SettingsError."""
        return cls(
            job_uid=_text(environment, names.ENV_JOB_UID),
            incarnation=_natural(environment, names.ENV_INCARNATION),
            key=_key(Path(environment.get(names.ENV_KEY_FILE, names.KEY_FILE))),
            # The pod's own: the Service may point to another incarnation by now.
            store_host=environment.get(names.ENV_POD_IP)
            or environment.get(names.ENV_COORDINATOR_HOST)
            or names.coordinator_service(_text(environment, names.ENV_JOB_NAME)),
            run_dir=Path(environment.get(names.ENV_RUN_DIR, names.RUN_DIR)),
            store_port=_natural(environment, names.ENV_STORE_PORT, names.PORT_STORE),
            worker_port=_natural(environment, names.ENV_WORKER_PORT, names.PORT_WORKER_SOCKET),
            view_port=_natural(environment, names.ENV_VIEW_PORT, names.PORT_VIEW_SOCKET),
            metrics_port=_natural(environment, names.ENV_METRICS_PORT, names.PORT_METRICS),
            metrics_host=environment.get(names.ENV_METRICS_HOST, ""),
        )

    @property
    def control_socket(self) -> Path:
        """Where the control container listens."""
        return self.run_dir / Path(names.CONTROL_SOCKET).name


def _text(environment: Mapping[str, str], variable: str) -> str:
    value = environment.get(variable, "")
    if not value:
        raise SettingsError(f"environment variable {variable} is not set; the operator sets it")
    return value


def _natural(environment: Mapping[str, str], variable: str, default: int | None = None) -> int:
    if default is not None and variable not in environment:
        return default
    text = _text(environment, variable)
    if not text.isdecimal():
        raise SettingsError(f"{variable} is {text!r}; write a number of 0 or more")
    return int(text)


def _key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} must hold the job's key in hex: {error}") from error
    if not key:
        raise SettingsError(f"{path} is empty; it must hold the job's key in hex")
    return key
