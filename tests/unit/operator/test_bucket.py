"""Token buckets, in made-up time."""

from collections.abc import Callable

import pytest

from rtj_operator import bucket
from rtj_operator.bucket import Bucket

type Sleep = Callable[[float], None]


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    clock = [100.0]
    monkeypatch.setattr(bucket.time, "monotonic", lambda: clock[0])

    def pass_by(seconds: float) -> None:
        clock[0] += seconds

    return pass_by


def test_a_burst_then_one_at_each_refill(sleep: Sleep) -> None:
    one = Bucket(3, 10.0)
    assert [one.take() for _ in range(5)] == [True, True, True, False, False]
    sleep(10.0)
    assert [one.take(), one.take()] == [True, False]
    sleep(1000.0)
    assert [one.take() for _ in range(4)] == [True, True, True, False]


def test_who_has_to_wait_waits_for_one_token_however_often_it_asks(sleep: Sleep) -> None:
    one = Bucket(2, 1.0)
    assert [one.wait_seconds() for _ in range(5)] == [0.0, 0.0, 1.0, 1.0, 1.0]
    sleep(0.75)
    assert one.wait_seconds() == pytest.approx(0.25)
    sleep(0.25)
    assert one.wait_seconds() == pytest.approx(1.0)
    sleep(10.0)
    assert [one.wait_seconds() for _ in range(3)] == [0.0, 0.0, 1.0]
