"""Whatever a tenant's coordinator says that is understood: a decision comes of it, and a status
that the API server takes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtj_api.messages import JobView, decode_view_socket
from rtj_api.status import ResilientTrainingJobStatus
from tests.unit.policy import build

# Likely ones and the bounds; what lies beyond is tests/unit/crds/test_messages.py's.
NATURAL = st.integers(0, 4) | st.sampled_from((2**31 - 1,))
INDEX = st.integers(-1, 4) | st.sampled_from((2**31 - 1,))
CODE = st.sampled_from((0, 1, 93, -9, -(2**31) + 1, 2**31 - 1))
STEP = st.integers(-1, 40) | st.sampled_from((-(2**63), 2**63 - 1))
SECONDS = st.floats(-10, 1000) | st.sampled_from((-1e9, 1e9))
UNIX = st.floats(build.NOW - 100, build.NOW + 100) | st.sampled_from((0.0, 1.0, 2.0**33))
TEXT = st.text(max_size=8) | st.just("x" * 1024)
UID = st.sampled_from(("worker-0-0", "worker-1-0", "worker-2-0", "", "stranger"))
LAUNCHER = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(("parked", "joining", "training", "exited", "killed")),
        "run": NATURAL,
        "position": INDEX,
        "exit_code": st.none() | CODE,
        "tail": TEXT,
    },
)
WORKER = st.fixed_dictionaries(
    {"slot": NATURAL, "incarnation": NATURAL, "pod_uid": UID},
    optional={
        "connected": st.booleans(),
        "silent_seconds": SECONDS,
        "position": INDEX,
        "launcher": LAUNCHER,
        "terminating": st.booleans(),
        "step": STEP,
    },
)
FAULT = st.fixed_dictionaries(
    {
        "number": NATURAL,
        "kind": st.sampled_from(("exception", "exit", "hang", "launcher", "worker", "control")),
    },
    optional={
        **dict.fromkeys(("run", "round"), NATURAL),
        **dict.fromkeys(("slot", "incarnation", "position", "rank", "replaced_by_slot"), INDEX),
        **dict.fromkeys(("step", "resumed_step"), STEP),
        "pod_uid": UID,
        "exit_code": st.none() | CODE,
        "out_of_memory": st.booleans(),
        "message": TEXT,
        "detected_unix": UNIX,
        "detected_seconds": SECONDS,
        "recovered_seconds": st.none() | SECONDS,
    },
)
VIEW = st.fixed_dictionaries(
    {"t": st.just("job_view"), "coordinator_incarnation": st.just(0), "run": st.just(1) | NATURAL},
    optional={
        **dict.fromkeys(("step", "highest_step", "checkpoint_step"), STEP),
        **dict.fromkeys(("ranks_training", "in_process_restarts", "in_job_restarts"), NATURAL),
        **dict.fromkeys(("restart", "refused_hellos", "epoch"), NATURAL),
        "round": INDEX,
        "control": st.sampled_from(("starting", "running", "dead")),
        "workers": st.lists(WORKER, max_size=4),
        "faults": st.lists(FAULT, max_size=3),
        "outcome": st.fixed_dictionaries(
            {"state": st.sampled_from(("none", "succeeded", "saved", "stopped", "refused"))},
            optional={"message": TEXT},
        ),
    },
)


def understood(said: dict[str, Any]) -> JobView:
    frame = decode_view_socket(msgspec.json.encode(said))
    assert isinstance(frame, JobView)
    return frame


def numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int):
        yield value


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VIEW, min_size=1, max_size=4))
def test_any_view_that_is_understood_brings_a_status_that_is_taken(
    views: list[dict[str, Any]],
) -> None:
    seen = build.running()
    for view in map(understood, views):
        _, seen = build.after(replace(seen, view=view), now=seen.now + 1)
        written = seen.job.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        ResilientTrainingJobStatus.model_validate(written)
        assert all(abs(number) < 2**63 for number in numbers(written))
