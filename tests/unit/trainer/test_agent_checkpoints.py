"""The folder for checkpoints that the agent makes."""

import logging
from pathlib import Path

import pytest

from rtj_trainer.agent.checkpoints import make_folder


def test_the_folder_is_made_and_may_be_there(tmp_path: Path) -> None:
    folder = tmp_path / "volume" / "llama3"
    for _ in range(2):
        make_folder({"RTJ_CHECKPOINT_DIR": str(folder)})
        assert folder.is_dir()


def test_a_refusal_is_told_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "volume").touch()
    with caplog.at_level(logging.WARNING):
        make_folder({"RTJ_CHECKPOINT_DIR": str(tmp_path / "volume" / "llama3")})
    assert "RTJ_CHECKPOINT_DIR" in caplog.text


def test_without_a_volume_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder({})
    assert list(tmp_path.iterdir()) == []
