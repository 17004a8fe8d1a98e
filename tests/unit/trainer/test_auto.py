"""Beats of scripts that do not beat."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_post_hooks as global_hooks

import rtj_trainer
from rtj_trainer import auto, rank
from rtj_trainer.beats import BeatReader


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A rank of a job whose hooks are gone afterwards."""
    monkeypatch.setenv("RTJ_SHM_DIR", str(tmp_path))
    monkeypatch.setenv("LOCAL_RANK", "0")
    rank._only_rank.cache_clear()
    hooks = global_hooks
    before = dict(hooks)
    yield tmp_path
    hooks.clear()
    hooks.update(before)
    rank._only_rank.cache_clear()


def _optimizer(kind: type[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return kind([parameter], lr=0.1)  # pyright: ignore[reportCallIssue]


def _step(folder: Path) -> int:
    (record,) = BeatReader(folder).read()
    return record.step


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_each_optimizer_step_is_a_step(job: Path, kind: type[torch.optim.Optimizer]):
    auto.install()
    optimizer = _optimizer(kind)
    for want in (1, 2, 3):
        optimizer.step()
        assert _step(job) == want


def test_count_goes_on_where_the_loaded_optimizer_was(job: Path):
    trained, resumed = _optimizer(torch.optim.AdamW), _optimizer(torch.optim.AdamW)
    for _ in range(5):
        trained.step()
    auto.install()
    resumed.load_state_dict(trained.state_dict())
    resumed.step()
    assert _step(job) == 6


def test_script_with_words_of_its_own_is_left_alone(job: Path):
    auto.install()
    rtj_trainer.beat(step=40)
    _optimizer(torch.optim.SGD).step()
    assert _step(job) == 40


def test_outside_a_job_or_turned_off_there_is_no_hook(job: Path, monkeypatch: pytest.MonkeyPatch):
    before = len(global_hooks)
    monkeypatch.setenv("RTJ_AUTO", "0")
    auto.install()
    monkeypatch.delenv("RTJ_AUTO")
    monkeypatch.delenv("RTJ_SHM_DIR")
    rank._only_rank.cache_clear()
    auto.install()
    assert len(global_hooks) == before
