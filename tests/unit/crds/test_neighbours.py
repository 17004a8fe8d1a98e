"""Neighbouring versions understand one another: released ones, and one that is yet to come."""

import json
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest

from rtj_api import messages
from rtj_api.messages import (
    Beat,
    Frame,
    JobDirective,
    JobView,
    TerminationMessage,
    WorkerDirective,
    decode_termination,
    decode_view_socket,
    decode_worker_socket,
)
from rtj_api.tolerant import Reader

RELEASES = sorted(path for path in Path("tests/data/protocol").iterdir() if path.is_dir())
DECODERS: dict[str, Callable[[bytes | str], object]] = {
    "worker": decode_worker_socket,
    "view": decode_view_socket,
    "termination": decode_termination,
}
SENT = [
    messages.Hello,
    messages.Challenge,
    messages.Proof,
    messages.Welcome,
    messages.Refused,
    Beat,
    WorkerDirective,
    JobDirective,
    JobView,
    TerminationMessage,
]
# Words that only ever stand for another's.
NEVER_SENT = ("keep",)
VIEW: dict[str, Any] = {
    "t": "job_view",
    "coordinator_incarnation": 0,
    "workers": [{"slot": 0, "incarnation": 0, "pod_uid": "u", "launcher": {"state": "thawing"}}],
    "faults": [{"number": 1, "kind": "exit"}, {"number": 2, "kind": "gpu", "message": "Xid 79"}],
}


def frames(release: Path) -> dict[str, Any]:
    return json.loads((release / "frames.json").read_text())


def cases() -> list[Any]:
    return [
        pytest.param(name.split("/")[0], frame, id=f"{release.name} {name}")
        for release in RELEASES
        for name, frame in frames(release).items()
    ]


def lacks(said: Any, understood: Any) -> str:
    """What was said and did not arrive; "" if all did."""
    if isinstance(said, dict):
        missing = [name for name in said if name not in understood]
        return ", ".join([*missing, *(lacks(said[n], understood[n]) for n in said)]).strip(", ")
    if isinstance(said, list):
        pairs = zip(said, understood, strict=True)
        return ", ".join(filter(None, (lacks(*pair) for pair in pairs)))
    return "" if said == understood else f"{said!r} became {understood!r}"


@pytest.mark.parametrize(("socket", "frame"), cases())
def test_what_a_released_version_says_is_understood_whole(
    socket: str, frame: dict[str, Any]
) -> None:
    read = DECODERS[socket](json.dumps(frame))
    tag = {"t": frame["t"]} if "t" in frame else {}
    # Defaults are left out of a frame, so compare with all fields spelt out.
    assert not lacks(frame, tag | spelt_out(read))


def spelt_out(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return spelt_out(msgspec.structs.asdict(value))
    if isinstance(value, dict):
        return {name: spelt_out(item) for name, item in value.items()}
    return [spelt_out(item) for item in value] if isinstance(value, list | tuple) else value


def filled(kind: Any, number: int) -> Any:
    """A value with every field set, other than by default; `number` chooses among words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return filled(arguments[0], number)
    if origin is Literal:
        words = [word for word in arguments if word not in NEVER_SENT]
        return words[number % len(words)]
    if origin is tuple:
        return (filled(arguments[0], number), filled(arguments[0], number + 1))
    if origin is dict:
        return {"pod": filled(arguments[1], number)}
    if origin in (Union, UnionType):
        return filled(next(part for part in arguments if part is not NoneType), number)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return kind(**{field.name: filled(field.type, number) for field in fields})
    return {int: number + 1, float: 0.5 + number, str: "word", bool: number % 2 == 0}[kind]


def refusal(schema: dict[str, Any], shapes: dict[str, Any], value: Any, at: str) -> str:
    """Why a decoder of that shape refuses the value; "" if it does not."""
    if "$ref" in schema:
        return refusal(shapes[schema["$ref"].rsplit("/", 1)[1]], shapes, value, at)
    if "anyOf" in schema:
        refusals = [refusal(option, shapes, value, at) for option in schema["anyOf"]]
        return "" if "" in refusals else refusals[0]
    if "enum" in schema:
        return "" if value in schema["enum"] else f"{at}: {value!r} is not of {schema['enum']}"
    if "properties" in schema:
        missing = [name for name in schema.get("required", ()) if name not in value]
        known = [name for name in value if name in schema["properties"]]
        inner = [
            refusal(schema["properties"][name], shapes, value[name], f"{at}.{name}")
            for name in known
        ]
        return next(filter(None, [*(f"{at}: no {name}" for name in missing), *inner]), "")
    kinds = {"integer": int, "number": (int, float), "string": str, "boolean": bool}
    match schema.get("type"):
        case "array":
            inner = [refusal(schema["items"], shapes, item, f"{at}[]") for item in value]
            return next(filter(None, inner), "")
        case "object":
            inner = [
                refusal(schema["additionalProperties"], shapes, item, f"{at}[]")
                for item in value.values()
            ]
            return next(filter(None, inner), "")
        case "null":
            return "" if value is None else f"{at}: {value!r} is not null"
        case name if isinstance(value, kinds[str(name)]):
            low, high = schema.get("minimum", value), schema.get("maximum", value)
            return "" if low <= value <= high else f"{at}: {value!r} is out of bounds"
        case name:
            return f"{at}: {value!r} is no {name}"


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
@pytest.mark.parametrize("kind", SENT, ids=lambda kind: kind.__name__)
def test_what_is_said_today_a_released_version_reads(release: Path, kind: type) -> None:
    shapes = json.loads((release / "schema.json").read_text())
    for number in range(8):
        said = json.loads(msgspec.json.encode(filled(kind, number)))
        assert not refusal(shapes[kind.__name__], shapes, said, kind.__name__)


def test_the_old_shapes_refuse_what_that_version_refused() -> None:
    shapes = json.loads((RELEASES[0] / "schema.json").read_text())
    refused = [
        {"t": "job_view"},
        {"t": "job_view", "coordinator_incarnation": -1},
        {"t": "job_view", "coordinator_incarnation": 0, "control": "asleep"},
        {"t": "job_view", "coordinator_incarnation": 0, "faults": [{"number": 1}]},
        {"t": "job_view", "coordinator_incarnation": 0, "run": "one"},
    ]
    for frame in refused:
        assert refusal(shapes["JobView"], shapes, frame, "view"), frame


# --- a version that is yet to come ---------------------------------------------------------------


def test_an_unknown_word_hides_nothing_else_of_its_frame() -> None:
    view = decode_view_socket(json.dumps(VIEW | {"control": "asleep", "outcome": {"state": "won"}}))
    assert isinstance(view, JobView)
    assert [(fault.number, fault.kind) for fault in view.faults] == [(1, "exit"), (2, "exception")]
    assert view.faults[1].message == "Xid 79"
    assert view.workers[0].launcher.state == "joining"
    assert (view.control, view.outcome.state) == ("starting", "none")


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(
            '{"t":"worker_directive","state":"freeze","run":4}',
            WorkerDirective(state="keep", run=4),
            id="a directive: the worker goes on as it is",
        ),
        pytest.param(
            '{"t":"beat","seq":3,"launcher":{"state":"thawing","run":2}}',
            Beat(seq=3, launcher=messages.LauncherState(state="joining", run=2)),
            id="a launcher: nothing is concluded",
        ),
    ],
)
def test_unknown_words_on_the_worker_socket(data: str, want: Frame) -> None:
    assert decode_worker_socket(data) == want


def test_an_unknown_stop_stops_nothing_and_an_unknown_end_of_a_pod_blames_nobody() -> None:
    least = {"t": "job_directive", "epoch": 1, "number": 1, "run": 1, "nodes": 1}
    data = json.dumps(least | {"processes_per_node": 1, "stop": "pause", "pods": {"u": 0}})
    directive = decode_view_socket(data)
    assert isinstance(directive, JobDirective)
    assert (directive.stop, directive.pods) == ("none", {"u": 0})
    assert decode_termination('{"outcome":"evicted","run":3}') == TerminationMessage(run=3)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"run": -5}, id="a number beyond its bound"),
        pytest.param({"control": 7}, id="a number where a word is due"),
        pytest.param({"control": "c" * 64}, id="a word beyond its bound"),
        pytest.param({"t": "job_news"}, id="a frame of a kind that is not known"),
    ],
)
def test_bounds_hold_for_a_frame_with_unknown_words_too(change: dict[str, Any]) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_view_socket(json.dumps(VIEW | change))


def test_who_must_prove_himself_must_be_known() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_worker_socket('{"t":"hello","role":"auditor","job_uid":"u","nonce":"n"}')


@pytest.mark.parametrize(
    ("frame", "want"),
    [
        pytest.param(VIEW, "'thawing'", id="a word"),
        pytest.param({**VIEW, "workers": [], "faults": [], "gpus": 8}, "gpus", id="a field"),
        pytest.param(
            {**VIEW, "workers": [], "faults": [{"number": 1, "kind": "exit", "xid": 79}]},
            "xid",
            id="a field of a fault",
        ),
    ],
)
def test_what_is_not_known_is_told_once(frame: dict[str, Any], want: str) -> None:
    told: list[str] = []
    reader = Reader(messages.VIEW_SOCKET, told.append)
    for _ in range(9):
        assert isinstance(reader.decode(json.dumps(frame)), JobView)
    assert len(told) == 1
    assert want in told[0]


def test_a_neighbour_of_this_version_gives_no_cause_to_tell() -> None:
    told: list[str] = []
    reader = Reader(messages.VIEW_SOCKET, told.append)
    for number in range(9):
        reader.decode(msgspec.json.encode(filled(JobView, number)))
    assert told == []
