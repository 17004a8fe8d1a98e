"""What comes from pods is bounded: a number beyond its bound is a frame that is not understood."""

import json
from typing import Any

import msgspec
import pytest

from rtj_api.messages import (
    Beat,
    JobView,
    TerminationMessage,
    decode_view_socket,
    decode_worker_socket,
)

BEAT: dict[str, Any] = {
    "t": "beat",
    "seq": 1,
    "launcher": {"state": "training"},
    "ranks": [{"local_rank": 0}],
    "exits": [{"number": 1, "run": 1, "round": 0, "local_rank": 0}],
}
VIEW: dict[str, Any] = {
    "t": "job_view",
    "coordinator_incarnation": 0,
    "workers": [{"slot": 0, "incarnation": 0, "pod_uid": "u"}],
    "faults": [{"number": 1, "kind": "exit"}],
    "outcome": {},
}


def changed(frame: dict[str, Any], path: str, value: object) -> bytes:
    """The frame as JSON, with another value at `path` ("faults.0.step")."""
    copy = json.loads(json.dumps(frame))
    *way, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    inner = copy
    for part in way:
        inner = inner[part]
    inner[last] = value
    return json.dumps(copy).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seq", 10**22),
        ("ranks.0.rank", 10**22),
        ("ranks.0.step", 10**22),
        ("ranks.0.step", -(10**22)),
        ("ranks.0.age_seconds", 1e18),
        ("ranks.0.error_iteration", -2),
        ("exits.0.number", -1),
        ("exits.0.exit_code", 2**40),
        ("launcher.run", 2**40),
        ("launcher.position", -7),
        ("ranks", [{"local_rank": n} for n in range(300)]),
    ],
)
def test_beat_beyond_a_bound_is_not_understood(path: str, value: object) -> None:
    assert isinstance(decode_worker_socket(json.dumps(BEAT)), Beat)
    with pytest.raises(msgspec.DecodeError):
        decode_worker_socket(changed(BEAT, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("run", 10**22),
        ("round", -2),
        ("highest_step", 10**22),
        ("in_job_restarts", 2**53),
        ("workers.0.silent_seconds", -1e18),
        ("workers.0.slot", 10**22),
        ("workers.0.pod_uid", "u" * 300),
        ("faults.0.number", -1),
        ("faults.0.rank", 10**22),
        ("faults.0.step", 10**22),
        ("faults.0.detected_unix", -1e18),
        ("faults.0.detected_unix", 1e18),
        ("faults.0.detected_seconds", 1e300),
        ("faults.0.recovered_seconds", -1e18),
    ],
)
def test_view_beyond_a_bound_is_not_understood(path: str, value: object) -> None:
    assert isinstance(decode_view_socket(json.dumps(VIEW)), JobView)
    with pytest.raises(msgspec.DecodeError):
        decode_view_socket(changed(VIEW, path, value))


@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", "Infinity"])
def test_what_is_no_number_is_not_understood(text: str) -> None:
    data = changed(VIEW, "faults.0.detected_unix", "HERE").replace(b'"HERE"', text.encode())
    with pytest.raises(msgspec.DecodeError):
        decode_view_socket(data)


def test_termination_message_is_bounded_too() -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b'{"run": 10000000000000000000000}', type=TerminationMessage)


def test_a_script_may_count_as_far_as_its_record_holds() -> None:
    for step in (-(2**63), 2**63 - 1):
        beat = decode_worker_socket(changed(BEAT, "ranks.0.step", step))
        assert isinstance(beat, Beat)
        assert beat.ranks[0].step == step
