"""What the probes say: a slow API server or a long queue makes nobody unhealthy."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from rtj_operator.health import QUEUE_SECONDS, STREAM_SECONDS, Health
from rtj_operator.kube.errors import Unreachable
from rtj_operator.work.queue import WorkQueue
from tests.unit.operator.virtual import run

A = ("ns", "a")


@dataclass
class Client:
    """Asked whether the API server answers."""

    answers: bool = True

    async def probe(self) -> None:
        if not self.answers:
            raise Unreachable("GET /version: refused")


@dataclass
class Lists:
    """The lists of a collection."""

    name: str = "pods"
    synced: bool = True
    refused: str = ""


@dataclass
class Watch:
    """A stream."""

    listing: Lists = field(default_factory=Lists)
    silent_seconds: float = 0.0


@dataclass
class Leader:
    """Whether this process leads."""

    leading: bool = True


def health(queue: WorkQueue, *watches: Watch, leading: bool = True, answers: bool = True) -> Health:
    stand_ins: tuple[Any, ...] = (Client(answers), watches, queue, Leader(leading))
    return Health(*cast("tuple[Any, Any, WorkQueue, Any]", stand_ins))


@pytest.mark.parametrize(
    ("silent", "answers", "want"),
    [
        pytest.param(0.0, True, "", id="all well"),
        pytest.param(STREAM_SECONDS + 1, True, "the watch of pods is silent", id="a dead stream"),
        pytest.param(STREAM_SECONDS + 1, False, "", id="a dead API server"),
    ],
)
async def test_silent_watch(silent: float, answers: bool, want: str) -> None:
    judged = health(WorkQueue(), Watch(silent_seconds=silent), answers=answers)
    assert want in await judged.alive()
    assert bool(want) == bool(await judged.alive())


async def _fresh_leader(queue: WorkQueue) -> None:
    """News while it was the standby, for a long time; the relist is not done yet."""
    queue.close()
    queue.add(A)


async def _idle(queue: WorkQueue) -> None:
    queue.add(A)
    queue.done(await queue.get())


async def _waiting(queue: WorkQueue) -> None:
    queue.add(A)


async def _hanging(queue: WorkQueue) -> None:
    queue.add(A)
    await queue.get()


@pytest.mark.parametrize(
    ("story", "leading", "healthy"),
    [
        pytest.param(_fresh_leader, True, True, id="a standby that just began to lead"),
        pytest.param(_idle, True, True, id="nothing to do"),
        pytest.param(_waiting, False, True, id="a standby"),
        pytest.param(_waiting, True, False, id="nobody takes what waits"),
        pytest.param(_hanging, True, False, id="a pass that does not end"),
    ],
)
def test_queue(story: Any, leading: bool, healthy: bool) -> None:
    async def work() -> str:
        queue = WorkQueue()
        await story(queue)
        await asyncio.sleep(QUEUE_SECONDS + 3600)
        return await health(queue, leading=leading).alive()

    assert (run(work()) == "") == healthy


def test_a_long_queue_that_moves_is_alive() -> None:
    async def work() -> None:
        queue = WorkQueue()
        for number in range(20):
            queue.add(("ns", str(number)))
        for _ in range(10):
            key = await queue.get()
            await asyncio.sleep(100)
            assert await health(queue).alive() == ""
            queue.done(key)

    run(work())


@pytest.mark.parametrize(
    ("jobs", "pods", "want"),
    [
        pytest.param(Lists("jobs"), Lists("pods"), "", id="all listed"),
        pytest.param(
            Lists("jobs"), Lists("pods", synced=False), "not listed yet: pods", id="one is due"
        ),
        pytest.param(
            Lists("jobs"),
            Lists("pods", synced=False, refused="403"),
            "",
            id="one of several is refused",
        ),
        pytest.param(
            Lists("jobs", synced=False, refused="403"),
            Lists("pods", synced=False, refused="403 too"),
            "refused: 403; 403 too",
            id="nothing may be read",
        ),
    ],
)
def test_ready(jobs: Lists, pods: Lists, want: str) -> None:
    assert health(WorkQueue(), Watch(jobs), Watch(pods)).ready() == want
