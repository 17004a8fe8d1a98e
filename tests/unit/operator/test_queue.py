"""The work queue, in virtual time."""

import asyncio

import pytest

from rtj_operator.work.queue import BACKOFF_MAX_SECONDS, FAILED_PAUSE_SECONDS, JobKey, WorkQueue
from tests.unit.operator.virtual import run

A: JobKey = ("ns", "a")
B: JobKey = ("ns", "b")


def now() -> float:
    return asyncio.get_running_loop().time()


def test_key_added_twice_is_given_once() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        queue.add(A)
        queue.add(B)
        assert [await queue.get(), await queue.get()] == [A, B]
        assert len(queue) == 0

    run(work())


def test_key_added_during_its_pass_is_given_once_more_after_it() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        await queue.get()
        queue.add(A)
        queue.add(A)
        assert len(queue) == 0
        queue.done(A)
        assert await queue.get() == A
        queue.done(A)
        assert len(queue) == 0

    run(work())


@pytest.mark.parametrize(
    ("delays", "want"),
    [
        pytest.param((5.0, 2.0), 2.0, id="earlier appointment wins over a later one"),
        pytest.param((2.0, 5.0), 2.0, id="later appointment does not postpone an earlier one"),
    ],
)
def test_earliest_appointment_stays(delays: tuple[float, ...], want: float) -> None:
    async def work() -> None:
        queue = WorkQueue()
        for delay in delays:
            queue.add_after(A, delay)
        await queue.get()
        assert now() == pytest.approx(want)
        queue.done(A)

    run(work())


def test_pass_that_is_done_wakes_up_when_it_asked_to() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        await queue.get()
        queue.done(A, 30.0)
        await queue.get()
        assert now() == pytest.approx(30.0)

    run(work())


def test_failing_key_waits_longer_each_time_up_to_a_bound() -> None:
    async def work() -> list[float]:
        queue = WorkQueue()
        queue.add(A)
        delays: list[float] = []
        for _ in range(12):
            await queue.get()
            delays.append(queue.failed(A))
        return delays

    delays = run(work())
    assert all(delay <= BACKOFF_MAX_SECONDS for delay in delays)
    assert delays[0] <= 0.2
    assert delays[-1] >= BACKOFF_MAX_SECONDS / 2


def test_news_of_a_failing_key_is_not_slept_over_and_does_not_spin() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        for _ in range(12):
            await queue.get()
            queue.failed(A)
        failed_at = now()
        queue.add(A)
        await queue.get()
        assert now() - failed_at == pytest.approx(FAILED_PAUSE_SECONDS)

    run(work())


def test_failing_key_does_not_hold_up_another() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        await queue.get()
        queue.failed(A)
        queue.add(B)
        assert await queue.get() == B
        assert now() == 0.0

    run(work())


def test_success_ends_the_backoff() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        for _ in range(6):
            await queue.get()
            queue.failed(A)
        await queue.get()
        queue.done(A)
        began = now()
        queue.add(A)
        await queue.get()
        assert now() == began
        assert queue.failed(A) <= 0.2

    run(work())


def test_closed_queue_forgets_all_and_takes_nothing_until_it_is_opened() -> None:
    async def work() -> None:
        queue = WorkQueue()
        queue.add(A)
        queue.add_after(B, 1.0)
        queue.close()
        queue.add(A)
        queue.add_after(B, 1.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await queue.get()
        assert queue.stuck_seconds == 0.0
        queue.open()
        queue.add(B)
        assert await queue.get() == B

    run(work())


def test_pass_that_does_not_end_is_stuck() -> None:
    async def work() -> None:
        queue = WorkQueue()
        assert queue.stuck_seconds == 0.0
        queue.add(A)
        await queue.get()
        await asyncio.sleep(7)
        queue.add(B)
        assert queue.stuck_seconds == pytest.approx(7.0)
        queue.done(A)
        assert queue.stuck_seconds == 0.0

    run(work())


def test_long_queue_is_stuck_only_if_nothing_is_taken_from_it() -> None:
    async def work() -> None:
        queue = WorkQueue()
        for number in range(10):
            queue.add(("ns", str(number)))
        for _ in range(5):
            key = await queue.get()
            await asyncio.sleep(60)
            queue.done(key)
        assert queue.stuck_seconds == pytest.approx(60.0)
        await asyncio.sleep(240)
        assert queue.stuck_seconds == pytest.approx(300.0)

    run(work())
