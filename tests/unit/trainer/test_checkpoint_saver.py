"""Saving and loading with PyTorch's distributed checkpoints, on one rank."""

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from rtj_trainer.checkpoint import folder, saver
from rtj_trainer.checkpoint.saver import NONE, Checkpointer, Unreadable, Unsaved
from rtj_trainer.checkpoint.state import TrainingState
from rtj_trainer.reference.data import Tokens
from rtj_trainer.reference.model import Llama
from rtj_trainer.reference.options import Options


@pytest.fixture(autouse=True, scope="module")
def _process_group() -> Iterator[None]:
    dist.init_process_group("cpu:gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _fresh(dim: int = 32, seed: int = 0) -> TrainingState:
    options = Options(dim=dim, layers=1, heads=4, kv_heads=2, vocab=64, seq=8, batch=2)
    torch.manual_seed(seed)
    model = Llama(options)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    return TrainingState(model, optimizer, Tokens(seed=0, rank=0, vocab=64, batch=2, seq=8))


def _step(state: TrainingState) -> float:
    assert isinstance(state.data, Tokens)
    inputs, targets = state.data.take()
    noise = 1 + 0.01 * torch.rand(())  # so that random numbers matter
    loss = noise * F.cross_entropy(state.model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.step += 1
    return loss.item()


def _saved(root: Path, steps: int) -> tuple[TrainingState, Checkpointer]:
    state, checkpointer = _fresh(), Checkpointer(root)
    checkpointer.load(state)
    for _ in range(steps):
        _step(state)
        checkpointer.save(state)
    return state, checkpointer


def _steps(root: Path) -> list[int]:
    return [checkpoint.step for checkpoint in folder.scan(root).complete]


@contextmanager
def _no_space() -> Iterator[None]:
    """Files cannot grow, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_training_goes_on_exactly_from_a_checkpoint(tmp_path: Path):
    state, checkpointer = _saved(tmp_path, 3)
    checkpointer.close()
    want = [_step(state) for _ in range(3)]

    resumed = _fresh(seed=1)
    assert Checkpointer(tmp_path).load(resumed) == 3
    assert resumed.step == 3
    assert [_step(resumed) for _ in range(3)] == want


def test_empty_folder_is_a_start_from_nothing(tmp_path: Path):
    assert Checkpointer(tmp_path / "made").load(_fresh()) == NONE


def test_state_is_that_of_the_save_not_of_the_write(tmp_path: Path):
    state, checkpointer = _saved(tmp_path, 1)
    want = _weights(state)
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.zero_()
    checkpointer.close()

    loaded = _fresh(seed=1)
    Checkpointer(tmp_path).load(loaded)
    assert torch.equal(_weights(loaded), want)


def _weights(state: TrainingState) -> torch.Tensor:
    local = [parameter.detach().to_local() for parameter in state.model.parameters()]  # pyright: ignore
    return torch.cat([weights.flatten().clone() for weights in local])


def test_two_newest_are_kept(tmp_path: Path):
    _, checkpointer = _saved(tmp_path, 4)
    assert checkpointer.finish() == 4
    assert _steps(tmp_path) == [4, 3]
    assert not list(tmp_path.glob("*.tmp-*"))


def test_damaged_newest_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    _, checkpointer = _saved(tmp_path, 2)
    checkpointer.close()
    next(folder.final_path(tmp_path, 2).glob("*.distcp")).write_bytes(b"")

    state = _fresh()
    assert Checkpointer(tmp_path).load(state) == 1
    assert "checkpoint skipped" in caplog.text
    assert "has 0 bytes" in caplog.text


def test_unreadable_newest_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    _, checkpointer = _saved(tmp_path, 2)
    checkpointer.close()
    metadata = folder.final_path(tmp_path, 2) / ".metadata"
    metadata.write_bytes(b"\0" * metadata.stat().st_size)

    assert Checkpointer(tmp_path).load(_fresh()) == 1
    assert "checkpoint skipped" in caplog.text


def test_checkpoints_of_another_model_are_no_reason_to_start_from_nothing(tmp_path: Path):
    _, checkpointer = _saved(tmp_path, 1)
    checkpointer.close()
    with pytest.raises(Unreadable, match="none of the 1 complete checkpoints"):
        Checkpointer(tmp_path).load(_fresh(dim=64))


def test_leftovers_are_removed_when_loading(tmp_path: Path):
    left = folder.temporary_path(tmp_path, 5, "dead")
    left.mkdir(parents=True)
    Checkpointer(tmp_path).load(_fresh())
    assert not left.exists()


def test_failed_save_is_told_leaves_nothing_and_the_next_one_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    state, checkpointer = _saved(tmp_path, 1)
    checkpointer.finish()
    _step(state)
    with _no_space():
        checkpointer.save(state)
        assert checkpointer.finish() == 1
    assert "checkpoint of step 2 failed" in caplog.text
    assert "File too large" in caplog.text
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000001"]

    _step(state)
    checkpointer.save(state)
    checkpointer.close()
    assert _steps(tmp_path) == [3, 1]


def test_end_without_the_last_checkpoint_is_an_error(tmp_path: Path):
    state, checkpointer = _saved(tmp_path, 1)
    checkpointer.finish()
    _step(state)
    with _no_space():
        checkpointer.save(state)
        with pytest.raises(Unsaved, match="the checkpoint of step 2"):
            checkpointer.close()


@contextmanager
def _held(monkeypatch: pytest.MonkeyPatch, function: str) -> Iterator[threading.Event]:
    """Checkpoints do not get past a function of the folder until the event is set."""
    go, real = threading.Event(), getattr(folder, function)

    def held(*args: Any) -> Any:
        go.wait(30)
        return real(*args)

    monkeypatch.setattr(folder, function, held)
    try:
        yield go
    finally:
        go.set()


class _Monitor:
    """Takes what NVRx's watchdog tells the process that kills hung ranks."""

    def __init__(self) -> None:
        self.longest = 0.0

    def send_timestamp(self, timestamp: Any) -> None:
        self.longest = max(self.longest, time.monotonic() - timestamp.auto)


@pytest.mark.parametrize("wait", [Checkpointer.finish, Checkpointer.close])
def test_waiting_for_a_slow_save_is_no_hang_to_nvrx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: Callable[[Checkpointer], Any]
):
    from nvidia_resiliency_ext.inprocess.progress_watchdog import ProgressWatchdog

    monitor = _Monitor()
    watchdog = ProgressWatchdog(0, monitor, timedelta(seconds=0.05))
    with _held(monkeypatch, "commit") as go:
        _, checkpointer = _saved(tmp_path, 1)
        watchdog.start()
        threading.Timer(2, go.set).start()
        wait(checkpointer)
    watchdog.shutdown()
    assert _steps(tmp_path) == [1]
    assert monitor.longest < 1


def test_save_from_before_a_restart_in_process_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with _held(monkeypatch, "commit") as go:
        _saved(tmp_path, 1)
        threading.Timer(0.5, go.set).start()
        assert Checkpointer(tmp_path).load(_fresh()) == 1


def test_save_from_before_a_restart_in_process_that_hangs_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(saver, "_EARLIER_SECONDS", 0.2)
    with _held(monkeypatch, "commit") as go:
        _, checkpointer = _saved(tmp_path, 1)
        assert Checkpointer(tmp_path).load(_fresh()) == NONE
        go.set()
        assert checkpointer.finish() == 1
    assert Checkpointer(tmp_path).load(_fresh()) == 1


def test_save_whose_file_was_removed_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with _held(monkeypatch, "commit") as go:
        _, checkpointer = _saved(tmp_path, 1)
        while not (shards := [*tmp_path.glob("*/.metadata"), *tmp_path.glob("*/*.distcp")])[1:]:
            time.sleep(0.01)
        shards[-1].unlink()
        go.set()
        assert checkpointer.finish() == NONE
    assert "is missing" in caplog.text
    assert not list(tmp_path.iterdir())
