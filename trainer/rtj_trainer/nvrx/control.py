"""Our entry to nvrx-control: imports torch and NVRx once, then forks one nvrx-control per run.

A new run must not wait for `import torch` (seconds), and a second copy waiting ready would cost its
memory twice. This process therefore stays single-threaded, reads one order per line from its
standard input, forks, and tells how each child ended. It takes the next order only after the last
child is gone: two runs never share the store's port.
"""

import os
import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import msgspec

from rtj_trainer import prctl
from rtj_trainer.nvrx import patches
from rtj_trainer.nvrx.limits import FOREVER_SECONDS, SURPLUS_NODES

_CLOSE_POLL_SECONDS: Final = 0.1


class ControlOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of one nvrx-control."""

    argv: tuple[str, ...]


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared"):
    """Imports are done; `unpatched` names waits that were left as NVRx has them."""

    unpatched: tuple[str, ...] = ()


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag="forked"):
    """nvrx-control runs as this process."""

    pid: Annotated[int, msgspec.Meta(gt=0)]


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """It ended; negative: by that signal."""

    pid: int
    exit_code: int


ControlNote = Prepared | Forked | Ended
_encoder = msgspec.json.Encoder()
_order_decoder = msgspec.json.Decoder(ControlOrder)
_note_decoder = msgspec.json.Decoder(ControlNote)


def encode_order(order: ControlOrder) -> bytes:
    """One line for the standard input of this program."""
    return _encoder.encode(order) + b"\n"


def decode_note(line: bytes) -> ControlNote:
    """One line of its standard output; raises msgspec.DecodeError."""
    return _note_decoder.decode(line)


def arguments(nodes: int, rendezvous_id: str, store_port: int) -> tuple[str, ...]:
    """nvrx-control's flags for NVRx 0.7.

    The store listens on all addresses whatever the endpoint's host is; join_timeout runs in
    nvrx-control too.
    """
    return (
        f"--nnodes={nodes}:{nodes + SURPLUS_NODES}",
        f"--rdzv-endpoint=127.0.0.1:{store_port}",
        f"--rdzv-id={rendezvous_id}",
        f"--rdzv-conf=join_timeout={FOREVER_SECONDS},last_call_timeout=0",
        "--ft-enable-log-server=false",
    )


def main() -> None:
    """Import, report, then fork per order until standard input ends."""
    parent = os.getppid()
    prctl.die_with_parent()
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Notes go to the pipe; whatever NVRx prints goes to the log.
    notes = os.dup(1)
    os.dup2(2, 1)
    from nvidia_resiliency_ext.fault_tolerance import control_plane

    _note(notes, Prepared(unpatched=_shorten_waits()))
    while line := sys.stdin.buffer.readline():
        _serve(control_plane.main, _order_decoder.decode(line), notes)


def _note(notes: int, note: ControlNote) -> None:
    os.write(notes, _encoder.encode(note) + b"\n")


def _serve(run: Any, order: ControlOrder, notes: int) -> None:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        # A fork copies only the calling thread; a lock held by another one stays held for ever.
        sys.exit(f"rtj-control: {threads} threads before the fork; set OPENBLAS_NUM_THREADS=1")
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_control(run, order, notes, parent)
    _note(notes, Forked(pid=pid))
    _, status = os.waitpid(pid, 0)
    _note(notes, Ended(pid=pid, exit_code=os.waitstatus_to_exitcode(status)))


def _become_control(run: Any, order: ControlOrder, notes: int, parent: int) -> NoReturn:
    prctl.die_with_parent()
    prctl.set_name("nvrx-control")
    if os.getppid() != parent:
        os._exit(1)
    os.close(notes)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.argv = ["nvrx-control", *order.argv]
    code = 1
    try:
        run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _shorten_waits() -> tuple[str, ...]:
    left: list[str] = []
    for patch in (patches.shorten_join_poll, _shorten_close_poll):
        try:
            patch()
        except patches.Unpatched as reason:
            left.append(f"{patch.__name__}: {reason}")
    return tuple(left)


def _shorten_close_poll() -> None:
    """Look at the joined every 0.1 s, not every second, while a round is open; raises Unpatched."""
    from nvidia_resiliency_ext.fault_tolerance import ft_rendezvous_barrier as barrier

    state = barrier._RendezvousBarrierState
    installed = metadata.version("nvidia-resiliency-ext")
    fits = state._compute_step2_poll_interval(2, 5.0) == 1.0
    if not installed.startswith(patches.SUPPORTED) or not fits:
        raise patches.Unpatched(f"nvidia-resiliency-ext {installed} polls in another way")
    state._compute_step2_poll_interval = staticmethod(_close_poll_seconds)


def _close_poll_seconds(min_nodes: int, segment_check_interval: float) -> float:
    """0.1 s for a small job; a thousand nodes are read at most once a second, as NVRx does."""
    return max(_CLOSE_POLL_SECONDS, min(segment_check_interval, 1.0, min_nodes / 1000.0))


if __name__ == "__main__":
    main()
