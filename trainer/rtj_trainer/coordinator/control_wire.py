"""What coordinator and control container say to each other: JSON lines over a Unix socket.

Runs only grow. Naming a run means "this one is to run"; the control container ends whatever else
runs, but it never starts a run twice: one that died is told, and the operator gives a new run.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

MAX_LINE_BYTES: Final = 4096


class ControlRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator -> control."""

    run: Annotated[int, Meta(ge=0)]
    nodes: Annotated[int, Meta(ge=1)]
    rendezvous_id: Annotated[str, Meta(min_length=1, max_length=256)]


class ControlStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Control -> coordinator; `run` -1: none asked for yet."""

    run: int = -1
    state: Literal["starting", "running", "exited"] = "exited"
    exit_code: int | None = None


_encoder = msgspec.json.Encoder()
_request_decoder = msgspec.json.Decoder(ControlRequest)
_status_decoder = msgspec.json.Decoder(ControlStatus)


def encode_line(message: ControlRequest | ControlStatus) -> bytes:
    """One message and its newline."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> ControlRequest:
    """Raises msgspec.DecodeError."""
    return _request_decoder.decode(line)


def decode_status(line: bytes) -> ControlStatus:
    """Raises msgspec.DecodeError."""
    return _status_decoder.decode(line)
