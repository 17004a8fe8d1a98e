"""Settings of the operator process, from the environment: `RTJ_OPERATOR_` and the field's name.

The chart sets them; a bad value ends the process with a message that names the variable.
"""

import os
import socket
import uuid
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from rtj_api import names
from rtj_operator.render.network_policy import Peers

MASTER_KEY_MIN_BYTES: Final = 32

Port = Annotated[int, Field(ge=0, le=65535)]


class SettingsError(Exception):
    """A setting cannot be used; the text says which and what to do."""


def _identity() -> str:
    # Unique a process: a restarted container must not pass for the one that held the lease.
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class Settings(BaseSettings):
    """See each field's description; durations and ports are plain numbers."""

    model_config = SettingsConfigDict(env_prefix="RTJ_OPERATOR_", frozen=True)

    namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Namespaces with jobs, comma-separated. Empty: all."
    )
    lease_namespace: str = Field(
        default_factory=lambda: os.environ.get("POD_NAMESPACE") or "default",
        description="Namespace of the leader lease.",
    )
    lease_name: str = Field(default=names.FIELD_MANAGER, description="Name of the leader lease.")
    identity: str = Field(
        default_factory=_identity, description="Name of this process in the lease."
    )
    master_key_file: Path = Field(
        default=Path("/etc/rtj/master/key"),
        description="File of a mounted Secret, at least 32 random bytes: every job's key is "
        "derived from it.",
    )
    bind_host: str = Field(default="", description="Address for probes and metrics. Empty: all.")
    probe_port: Port = Field(default=8080, description="Serves /healthz.")
    metrics_port: Port = Field(default=9090, description="Serves /metrics and /readyz.")
    log_format: Literal["text", "json"] = Field(default="text", description="Form of log records.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level of log records."
    )
    pod_namespace: str = Field(
        default_factory=lambda: os.environ.get("POD_NAMESPACE", ""),
        description="Namespace of the operator's pods, from which jobs accept the view socket. "
        "Empty (not in a cluster): from anywhere.",
    )
    pod_labels: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Labels of the operator's pods, as JSON, for the same.",
    )
    metrics_namespace: str = Field(
        default="", description="Namespace that may read the jobs' metrics. Empty: none."
    )

    @field_validator("namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(item for part in value.split(",") if (item := part.strip()))
        return value

    @property
    def probe_endpoint(self) -> str:
        """Where kopf serves the liveness probe. It takes one address: that of the pod's family."""
        any_address = "::" if ":" in os.environ.get("POD_IP", "") else "0.0.0.0"
        host = self.bind_host or any_address
        return f"http://{f'[{host}]' if ':' in host else host}:{self.probe_port}/healthz"

    @property
    def peers(self) -> Peers:
        """Who may connect to the jobs' pods."""
        return Peers(
            operator_namespace=self.pod_namespace,
            operator_labels=self.pod_labels,
            metrics_namespace=self.metrics_namespace,
        )

    def read_master_key(self) -> bytes:
        """The master key. Raises SettingsError."""
        try:
            key = self.master_key_file.read_bytes().strip()
        except OSError as error:
            raise SettingsError(
                f"RTJ_OPERATOR_MASTER_KEY_FILE: {self.master_key_file} cannot be read "
                f"({error.strerror}); mount a Secret there whose key holds at least "
                f"{MASTER_KEY_MIN_BYTES} random bytes"
            ) from error
        if len(key) < MASTER_KEY_MIN_BYTES:
            raise SettingsError(
                f"RTJ_OPERATOR_MASTER_KEY_FILE: {self.master_key_file} holds {len(key)} bytes; "
                f"at least {MASTER_KEY_MIN_BYTES} random ones are needed"
            )
        return key
