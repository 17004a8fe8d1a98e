"""What agents, coordinator and operator say to each other: JSON over WebSocket, one struct a frame.

Rules of the wire
- Every frame is one of the tagged structs below (`"t"` names it). Both sides can be of neighbouring
  versions: every field added later has a default, unknown fields are ignored, unknown words of a
  set that may grow are read as the word that `otherwise` names (see `rtj_api.tolerant`). What does
  not decode raises `msgspec.DecodeError` (ValidationError is one): log once per connection, ignore
  the frame.
- Everything is level-triggered: a Beat, WorkerDirective, JobDirective and JobView each carry the
  whole state, so a lost or repeated frame changes nothing.
- Times are ages in seconds as the sender sees them, never clock readings of another machine; the
  few `..._unix` fields are for people and for history.

Handshake of both sockets (see `rtj_api.auth`): Hello -> Challenge -> Proof -> Welcome. A refused
client gets Refused and the socket is closed. Hello and Challenge announce capabilities; between
two sides that can, frames are sealed from the Welcome on.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from rtj_api.tolerant import Tolerant, otherwise

PROTOCOL_MIN: Final = 1
PROTOCOL_MAX: Final = 1

# Bounds that a receiver enforces by not decoding what is beyond them: what a pod says must neither
# break a rule nor become a status that the API server refuses. A text over its bound is cut by the
# sender; numbers are bounded so that no honest one reaches its bound.
MAX_FRAME_WORKER_BYTES: Final = 256 * 1024
MAX_FRAME_VIEW_BYTES: Final = 8 * 1024 * 1024
MAX_TEXT: Final = 1024
MAX_FAULTS: Final = 64
# More than a job can have: spec.nodes and spec.spares, with some that are on their way out.
MAX_WORKERS: Final = 8192
MAX_RANKS: Final = 256
_INT32_MAX: Final = 2**31 - 1

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
# Names, UIDs, nonces, proofs.
Word = Annotated[str, Meta(max_length=253)]
# Sums of these stay within 64 bits for as long as a job can live.
Natural = Annotated[int, Meta(ge=0, le=_INT32_MAX)]
# A place, or -1 for none.
Index = Annotated[int, Meta(ge=-1, le=_INT32_MAX)]
ExitCode = Annotated[int, Meta(ge=-_INT32_MAX, le=_INT32_MAX)]
# As wide as in a rank's record, which a script fills: -1 before the first.
Step = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# Negative ones come from a sender that stood still meanwhile.
Seconds = Annotated[float, Meta(ge=-1e9, le=1e9)]
# Until the year 2242.
Unix = Annotated[float, Meta(ge=0, le=2**33)]
Capabilities = Annotated[tuple[Annotated[str, Meta(max_length=63)], ...], Meta(max_length=64)]


class Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of all frames."""


# --- handshake ---------------------------------------------------------------------------------


class Hello(Frame, frozen=True, kw_only=True, tag="hello"):
    """First frame of a client (agent or operator)."""

    role: Literal["worker", "operator"]
    job_uid: Word
    nonce: Word
    protocol_min: Natural = PROTOCOL_MIN
    protocol_max: Natural = PROTOCOL_MAX
    # worker
    pod_uid: Word = ""
    pod_name: Word = ""
    slot: Natural = 0
    incarnation: Natural = 0
    # operator: leaseTransitions of its leadership; a lower one than seen before is refused
    epoch: Natural = 0
    # What this side understands beyond the protocol's version (see `rtj_api.capabilities`); unknown
    # ones are ignored.
    capabilities: Capabilities = ()


class Challenge(Frame, frozen=True, kw_only=True, tag="challenge"):
    """Server's nonce, what it understands, and its proof of all that was said so far."""

    nonce: Word
    proof: Word
    capabilities: Capabilities = ()


class Proof(Frame, frozen=True, kw_only=True, tag="proof"):
    """Client's proof."""

    proof: Word


class Welcome(Frame, frozen=True, kw_only=True, tag="welcome"):
    """The connection is open; `protocol` is the version both speak."""

    protocol: Natural
    coordinator_incarnation: Natural = 0


class Refused(Frame, frozen=True, kw_only=True, tag="refused"):
    """Why the client was turned away: bad-proof, wrong-job, protocol, stale-incarnation,
    not-expected, stale-epoch."""

    reason: Word
    message: Text = ""


# --- worker -> coordinator ---------------------------------------------------------------------


class RankBeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One training process as its shared-memory record shows it."""

    local_rank: Natural
    rank: Natural = 0
    pid: Natural = 0
    alive: bool = False
    # Steps completed since the training began (a step number, never reset by a restart); -1 before
    # the first.
    step: Step = -1
    phase: Annotated[str, Meta(max_length=32)] = ""
    age_seconds: Seconds = 0.0
    # Newest checkpoint step known complete, -1 for none.
    checkpoint_step: Step = -1
    # In-process iteration: number of in-process restarts of this process so far.
    iteration: Natural = 0
    # Rendezvous round in which the process was started (TORCHELASTIC_RESTART_COUNT).
    round: Natural = 0
    # Reached the end of training.
    done: bool = False
    # Saved and left at an agreed stop.
    saved: bool = False
    # Last exception that the in-process wrapper saw in this rank, and the iteration it ended.
    error: Text = ""
    error_iteration: Index = -1


class ExitReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A training process that ended other than with 0, as the launcher saw it."""

    # Grows by one per report of this agent, so that a repeated beat is not a second fault.
    number: Natural
    run: Natural
    round: Natural
    local_rank: Natural
    rank: Natural = 0
    # Negative: ended by that signal (the subprocess convention).
    exit_code: ExitCode = 0
    # Killed by the kernel's OOM killer, as far as the cgroup tells.
    out_of_memory: bool = False
    # Ended by the rank monitor because of a missing heartbeat or an overlong section.
    hang: bool = False
    # Last lines of the worker's error output.
    tail: Text = ""


class LauncherState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """ft_launcher of this pod."""

    # parked: prepared, not started. starting/joining/training as far as the agent knows.
    # exited: ended by itself with exit_code. killed: ended by the agent.
    state: Annotated[
        Literal["parked", "joining", "training", "exited", "killed"], otherwise("joining")
    ] = "parked"
    run: Natural = 0
    position: Index = -1
    launch: Index = -1
    pid: Natural = 0
    exit_code: ExitCode | None = None
    # Killed by the kernel's OOM killer, as far as the cgroup tells.
    out_of_memory: bool = False
    tail: Text = ""


class Beat(Frame, frozen=True, kw_only=True, tag="beat"):
    """State of one worker; sent every `beat_interval_seconds` and at once when anything but an age
    changed."""

    seq: Natural
    launcher: LauncherState = LauncherState()
    ranks: Annotated[tuple[RankBeat, ...], Meta(max_length=MAX_RANKS)] = ()
    exits: Annotated[tuple[ExitReport, ...], Meta(max_length=MAX_FAULTS)] = ()
    # Pod is being stopped (SIGTERM received); wants to save and leave.
    terminating: bool = False
    # Only on the link to a standby coordinator: the incarnation of the coordinator that the worker
    # obeys, and seconds since it last heard it (-1: it never has).
    obeys_incarnation: Index = -1
    coordinator_silent_seconds: Seconds = -1.0


# --- coordinator -> worker ---------------------------------------------------------------------


class WorkerDirective(Frame, frozen=True, kw_only=True, tag="worker_directive"):
    """What this worker is to be. The agent makes it so, whatever it was before."""

    # park: hold a prepared launcher. train: run the launcher with exactly this run, position and
    # launch; one running with others is killed hard first. leave: ranks agree, save and leave.
    # exit: kill hard and end the agent with exit code 0. keep: never sent; an unknown state of a
    # newer coordinator, on which the agent goes on as it is.
    state: Annotated[Literal["park", "train", "leave", "exit", "keep"], otherwise("keep")]
    run: Natural = 0
    position: Index = -1
    launch: Index = -1
    nodes: Natural = 0
    processes_per_node: Natural = 0
    rendezvous_id: Word = ""
    # Host of the store; the agent adds names.PORT_STORE.
    store_host: Word = ""
    beat_interval_seconds: Seconds = 1.0
    # Silence after which a worker counts as lost; also how long an agent may let its launcher join
    # a round on the word of a coordinator it no longer hears (the fence).
    beat_timeout_seconds: Seconds = 5.0
    rank_timeout_seconds: Seconds = 600.0
    initial_rank_timeout_seconds: Seconds = 1800.0
    in_process: bool = True
    # The run as the job's history sees it, for the termination message.
    round: Natural = 0
    # Address of the standby coordinator to which the worker keeps a second, light link; "": none.
    standby_host: Word = ""
    standby_incarnation: Natural = 0


# --- operator -> coordinator -------------------------------------------------------------------


class JobDirective(Frame, frozen=True, kw_only=True, tag="job_directive"):
    """The operator's whole intent for the job. Of a lower epoch, or of the same epoch and a lower
    number: ignored and counted."""

    epoch: Natural
    number: Natural
    run: Natural
    nodes: Natural
    processes_per_node: Natural
    # Pods that may take part: uid -> slot. A connected worker that is not listed is told to exit.
    pods: Annotated[dict[Word, Natural], Meta(max_length=MAX_WORKERS)] = {}
    # Pods excluded at once although still listed or running (their launcher is killed).
    excluded: Annotated[tuple[Word, ...], Meta(max_length=MAX_WORKERS)] = ()
    # none: train. save: agree, save, leave. now: kill hard, everything ends.
    stop: Annotated[Literal["none", "save", "now"], otherwise("none")] = "none"
    # Grows by one for each in-job restart that the operator asks for (a hang the ranks hide).
    restart: Natural = 0
    beat_interval_seconds: Seconds = 1.0
    beat_timeout_seconds: Seconds = 5.0
    rank_timeout_seconds: Seconds = 600.0
    initial_rank_timeout_seconds: Seconds = 1800.0
    in_process: bool = True
    # False: to a standby coordinator, which admits these pods and directs none of them.
    active: bool = True
    # Where the standby of this coordinator listens, for the workers; "": there is none.
    standby_host: Word = ""
    standby_incarnation: Natural = 0


# --- coordinator -> operator -------------------------------------------------------------------


class WorkerView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker as the coordinator sees it."""

    slot: Natural
    incarnation: Natural
    pod_uid: Word
    connected: bool = False
    # Seconds since the last beat (0 while connected and beating).
    silent_seconds: Seconds = 0.0
    # Position in the training, -1 for a spare or a lost worker.
    position: Index = -1
    launcher: LauncherState = LauncherState()
    terminating: bool = False
    step: Step = -1
    # As the worker's beat to a standby coordinator has them (see Beat).
    obeys_incarnation: Index = -1
    coordinator_silent_seconds: Seconds = -1.0


class FaultReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that the coordinator saw and what it did about it at once.

    `number` grows by one per coordinator incarnation; the operator absorbs numbers above the last
    it stored, so that none counts twice and none is lost.
    """

    number: Natural
    # exception: in-process restart seen. exit: a training process ended. hang: a rank monitor or
    # the wrapper ended one for silence. launcher: ft_launcher ended. worker: socket closed or beats
    # stopped. control: nvrx-control ended. An unknown kind is read as the one of which the least
    # follows.
    kind: Annotated[
        Literal["exception", "exit", "hang", "launcher", "worker", "control"],
        otherwise("exception"),
    ]
    run: Natural = 0
    round: Natural = 0
    slot: Index = -1
    incarnation: Index = -1
    pod_uid: Word = ""
    position: Index = -1
    rank: Index = -1
    exit_code: ExitCode | None = None
    out_of_memory: bool = False
    message: Text = ""
    detected_unix: Unix = 0.0
    # Seconds from the last sign of life of the suspect to the detection.
    detected_seconds: Seconds = 0.0
    # Seconds from the last step that all ranks completed to the detection: training has stood still
    # since then, whoever noticed when. -1: no step was seen.
    stalled_seconds: Seconds = -1.0
    # The process ended before it made a step in its round: it failed while it started or loaded.
    before_step: bool = False
    # Seconds for which the coordinator holds the next round back, since starts failed in a row.
    backoff_seconds: Seconds = 0.0
    # Highest step reached before the fault, and the step training resumed from (-1: not yet).
    step: Step = -1
    resumed_step: Step = -1
    # Seconds from detection to the first step completed afterwards, and to the first one beyond the
    # highest before; None: not yet.
    resumed_seconds: Seconds | None = None
    recovered_seconds: Seconds | None = None
    # Slot of the spare that took the position, -1 if none did (yet).
    replaced_by_slot: Index = -1


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the run ended, as far as it has."""

    # succeeded: NVRx's last-member key and every rank's done mark. saved: every rank saved and
    # left. refused: a rank or ft_launcher said "do not restart" (exit 93).
    state: Annotated[
        Literal["none", "succeeded", "saved", "stopped", "refused"], otherwise("none")
    ] = "none"
    message: Text = ""


class JobView(Frame, frozen=True, kw_only=True, tag="job_view"):
    """The coordinator's whole view. Sent at most five times a second when it changes, and at least
    every five seconds."""

    coordinator_incarnation: Natural
    epoch: Natural = 0
    directive_number: Natural = 0
    run: Natural = 0
    # Highest closed round of this run, -1 before the first.
    round: Index = -1
    control: Annotated[Literal["starting", "running", "dead"], otherwise("starting")] = "starting"
    workers: Annotated[tuple[WorkerView, ...], Meta(max_length=MAX_WORKERS)] = ()
    # Lowest completed step over the ranks in training; highest ever seen by this coordinator.
    step: Step = -1
    highest_step: Step = -1
    checkpoint_step: Step = -1
    # Seconds since `step` last grew; -1 before the first step.
    step_age_seconds: Seconds = -1.0
    # Number of training ranks that beat now, and how many there should be.
    ranks_training: Natural = 0
    # Counters of this coordinator incarnation.
    in_process_restarts: Natural = 0
    in_job_restarts: Natural = 0
    # The newest MAX_FAULTS, oldest first; entries change until recovered.
    faults: Annotated[tuple[FaultReport, ...], Meta(max_length=MAX_FAULTS)] = ()
    outcome: Outcome = Outcome()
    restart: Natural = 0
    refused_hellos: Natural = 0
    # A standby's view: whom it hears, and what they hear of the coordinator.
    standby: bool = False


WorkerSocketFrame = Hello | Challenge | Proof | Welcome | Refused | Beat | WorkerDirective
ViewSocketFrame = Hello | Challenge | Proof | Welcome | Refused | JobDirective | JobView

_encoder = msgspec.json.Encoder()
WORKER_SOCKET: Final = Tolerant[WorkerSocketFrame](WorkerSocketFrame)
VIEW_SOCKET: Final = Tolerant[ViewSocketFrame](ViewSocketFrame)


def encode(frame: Frame) -> bytes:
    """One frame as JSON."""
    return _encoder.encode(frame)


def decode_worker_socket(data: bytes | str) -> WorkerSocketFrame:
    """Decode a frame of the agent-coordinator socket; raises msgspec.DecodeError."""
    return WORKER_SOCKET.decode(data)


def decode_view_socket(data: bytes | str) -> ViewSocketFrame:
    """Decode a frame of the coordinator-operator socket; raises msgspec.DecodeError."""
    return VIEW_SOCKET.decode(data)


class TerminationMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """JSON that an agent leaves in its termination log (4,096 bytes), read by an operator that was
    away when the pod ended."""

    run: Natural = 0
    round: Natural = 0
    position: Index = -1
    # finished: told to exit after success. saved: after save and leave. stopped: told to exit or
    # SIGTERM. failed: the agent itself could not go on.
    outcome: Annotated[Literal["finished", "saved", "stopped", "failed"], otherwise("stopped")] = (
        "stopped"
    )
    exit_code: ExitCode | None = None
    message: Text = ""


_TERMINATION: Final = Tolerant[TerminationMessage](TerminationMessage)


def decode_termination(data: bytes | str) -> TerminationMessage:
    """Decode a termination message; raises msgspec.DecodeError."""
    return _TERMINATION.decode(data)
