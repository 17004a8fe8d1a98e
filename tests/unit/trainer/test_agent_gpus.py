"""How long the agent waits for GPU memory. Whether NVML says the truth, only a GPU can tell."""

import time
from pathlib import Path

import pytest

from rtj_trainer.agent.gpus import used_bytes, wait_until_free

_GB = 1024**3


@pytest.mark.parametrize(
    ("readings", "want"),
    [
        pytest.param([()], True, id="no GPU"),
        pytest.param([(0, _GB // 4)], True, id="a context's remainder"),
        pytest.param([(70 * _GB, _GB), (0, _GB), (0, 0)], True, id="freed one after the other"),
        pytest.param([(0, 70 * _GB)], False, id="never freed"),
    ],
)
async def test_launch_waits_for_the_memory_of_killed_processes(
    readings: list[tuple[int, ...]], want: bool
):
    left = list(readings)
    freed = await wait_until_free(lambda: left.pop(0) if len(left) > 1 else left[0], seconds=1)
    assert freed is want
    assert len(left) == 1


async def test_launch_does_not_wait_for_ever_for_a_gpu_that_does_not_answer():
    def hang() -> tuple[int, ...]:
        time.sleep(5)
        return ()

    started = time.monotonic()
    assert not await wait_until_free(hang, seconds=0.5)
    assert time.monotonic() - started < 2


async def test_nothing_to_ask_is_no_reason_to_wait():
    def fail() -> tuple[int, ...]:
        raise ModuleNotFoundError("pynvml")

    assert await wait_until_free(fail, seconds=5)


def test_machine_without_gpu_has_no_memory_in_use():
    assert (used_bytes() == ()) is not Path("/dev/nvidiactl").exists()
