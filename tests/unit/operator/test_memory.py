"""What is remembered of refusals: one a kind, each with its own pause."""

from collections.abc import Callable

import pytest

from rtj_operator.kube.errors import ApiError, Status
from rtj_operator.work import memory
from rtj_operator.work.memory import (
    REFUSED_PAUSE_SECONDS,
    THROTTLED_PAUSE_SECONDS,
    JobMemory,
)

type Sleep = Callable[[float], None]


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    clock = [100.0]
    monkeypatch.setattr(memory.time, "monotonic", lambda: clock[0])

    def pass_by(seconds: float) -> None:
        clock[0] += seconds

    return pass_by


def error(code: int) -> ApiError:
    return ApiError("POST /x", Status(code=code, message=f"no: {code}"))


def told(job: JobMemory) -> str:
    return job.refusal.kind if job.refusal else ""


def test_refusals_of_two_kinds_pause_both(sleep: Sleep) -> None:
    job = JobMemory(uid="u")
    job.refused("Child", "a", error(403))
    sleep(1)
    job.refused("Pod", "a-worker-0-0", error(403))
    assert (job.paused("Child"), job.paused("Pod")) == (True, True)
    assert job.retry_seconds == REFUSED_PAUSE_SECONDS - 1
    assert told(job) == "Child"
    sleep(REFUSED_PAUSE_SECONDS - 1)
    assert (job.paused("Child"), job.paused("Pod")) == (False, True)
    job.refused("Child", "a", error(403))
    assert told(job) == "Child", "what is told does not take turns"
    job.accepted("Child")
    assert told(job) == "Pod"
    assert (job.paused("Child"), job.paused("Pod")) == (False, True)
    job.accepted("Pod")
    assert (told(job), job.retry_seconds) == ("", None)


def test_throttled_is_tried_again_sooner(sleep: Sleep) -> None:
    job = JobMemory(uid="u")
    job.refused("Pod", "p", error(429))
    assert job.retry_seconds == THROTTLED_PAUSE_SECONDS
    sleep(THROTTLED_PAUSE_SECONDS)
    assert not job.paused("Pod")


def test_refusal_of_what_nobody_wants_any_more_is_forgotten(sleep: Sleep) -> None:
    job = JobMemory(uid="u")
    job.refused("Pod", "p", error(403))
    job.drop_unwanted()
    assert told(job) == "Pod", "it is to be tried again"
    sleep(REFUSED_PAUSE_SECONDS)
    assert job.retry_seconds == 0.0
    job.drop_unwanted()
    assert (told(job), job.retry_seconds) == ("", None), "or each pass would ask for the next"
