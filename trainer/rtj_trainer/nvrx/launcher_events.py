"""What our launcher process tells the agent, and the one order it takes.

The launcher's log texts are no interface; these structs are. Torch-free: the agent imports this.
One JSON line each: the order on the launcher's standard input, the events on an inherited pipe.
"""

import os
from typing import Annotated, Final

import msgspec
from msgspec import Meta

# Process id of the agent; a launcher whose parent is another ends.
ENV_AGENT_PID: Final = "RTJ_LAUNCHER_AGENT_PID"
# Descriptor of the pipe for events, inherited by the launcher and its rank monitors.
ENV_EVENTS_FD: Final = "RTJ_LAUNCHER_EVENTS_FD"
# "LOCAL_RANK:OUT:ERR,..." descriptors that become the standard output and error of the ranks.
ENV_RANK_STDIO: Final = "RTJ_LAUNCHER_RANK_STDIO"

# A pipe takes a write of up to PIPE_BUF (4,096) bytes whole, whoever else writes at the same time.
MAX_EVENT_BYTES: Final = 4096
_MAX_MESSAGE: Final = 1024


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to launch: ft_launcher's arguments and what to add to the environment."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """Base of all events."""


class Ready(Event, frozen=True, kw_only=True, tag="ready"):
    """Imported and waiting for its order."""

    # What was left unpatched, and why; empty when all waits are short.
    unpatched: tuple[str, ...] = ()


class Joining(Event, frozen=True, kw_only=True, tag="joining"):
    """Entering the rendezvous; no training process runs."""


class Started(Event, frozen=True, kw_only=True, tag="started"):
    """Training processes of a round were started."""

    round: int
    group_rank: int
    # local rank -> (global rank, process id)
    ranks: dict[int, tuple[int, int]]


class RankFailed(Event, frozen=True, kw_only=True, tag="rank_failed"):
    """A training process ended other than with 0 and before its siblings were stopped."""

    round: int
    local_rank: int
    rank: int
    pid: int
    # Negative: ended by that signal.
    exit_code: int
    # From torch's error file, when the script records its exceptions there.
    message: Annotated[str, Meta(max_length=_MAX_MESSAGE)] = ""


class RankHung(Event, frozen=True, kw_only=True, tag="rank_hung"):
    """A rank monitor is about to end a training process for silence or an overlong section."""

    local_rank: int
    rank: int
    pid: int


class RanksSaved(Event, frozen=True, kw_only=True, tag="ranks_saved"):
    """The training processes left with EXIT_SAVED; the launcher waits to be ended."""

    round: int


class RanksFinished(Event, frozen=True, kw_only=True, tag="ranks_finished"):
    """All training processes of this launcher ended with exit code 0."""

    round: int


LauncherEvent = Ready | Joining | Started | RankFailed | RankHung | RanksSaved | RanksFinished

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(LauncherEvent)
_orders = msgspec.json.Decoder(Order)


def encode(message: Order | Event) -> bytes:
    """One line, its end included."""
    return _encoder.encode(message) + b"\n"


def decode_event(line: bytes) -> LauncherEvent:
    """One event; raises msgspec.DecodeError."""
    return _events.decode(line)


def decode_order(line: bytes) -> Order:
    """The order; raises msgspec.DecodeError."""
    return _orders.decode(line)


def cut_message(text: str) -> str:
    """The end of a text, where the error is, short enough for one event."""
    return text.encode(errors="replace")[-_MAX_MESSAGE:].decode(errors="ignore")


class EventPipe:
    """The writing end. Used by the launcher and, after a fork, by its rank monitors."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def from_env(cls) -> "EventPipe":
        """The pipe named by the environment; raises KeyError when the agent did not start us."""
        return cls(int(os.environ[ENV_EVENTS_FD]))

    def send(self, event: Event) -> None:
        """Write one event, whole. A reader that is gone is no error: our end comes with its."""
        line = encode(event)
        if len(line) > MAX_EVENT_BYTES:
            raise ValueError(f"event of {len(line)} bytes does not fit a pipe's atomic write")
        try:
            os.write(self._descriptor, line)
        except BrokenPipeError:
            return
