"""A checkpoint is whole or it is not there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rtj_trainer.checkpoint import folder

_LEAST = {"__0_0.distcp": 7}


def _written(root: Path, step: int, token: str = "a") -> Path:
    path = folder.temporary_path(root, step, token)
    path.mkdir(parents=True)
    (path / "__0_0.distcp").write_bytes(b"weights")
    (path / ".metadata").write_bytes(b"what is where")
    return path


def _committed(root: Path, step: int) -> Path:
    _written(root, step)
    return folder.commit(root, step, "a", 2, _LEAST).path


def _steps(root: Path) -> list[int]:
    return [checkpoint.step for checkpoint in folder.scan(root).complete]


def test_committed_checkpoint_is_found_with_its_world_size(tmp_path: Path):
    path = _committed(tmp_path, 7)
    assert folder.scan(tmp_path) == folder.Scan((folder.Checkpoint(7, 2, path),), ())
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000007"]


def test_newest_comes_first(tmp_path: Path):
    for step in (9, 100, 20):
        _committed(tmp_path, step)
    assert _steps(tmp_path) == [100, 20, 9]


def test_attempt_without_commit_is_no_checkpoint(tmp_path: Path):
    _written(tmp_path, 7)
    assert folder.scan(tmp_path) == folder.Scan((), ())


def test_missing_folder_has_no_checkpoints(tmp_path: Path):
    assert folder.scan(tmp_path / "absent") == folder.Scan((), ())


def _remove_file(path: Path) -> None:
    (path / "__0_0.distcp").unlink()


def _remove_hidden_file(path: Path) -> None:
    (path / ".metadata").unlink()


def _shorten_file(path: Path) -> None:
    (path / "__0_0.distcp").write_bytes(b"wei")


def _remove_marker(path: Path) -> None:
    (path / folder.MARKER).unlink()


def _break_marker(path: Path) -> None:
    (path / folder.MARKER).write_text('{"step":')


@pytest.mark.parametrize(
    ("damage", "want"),
    [
        pytest.param(_remove_file, "__0_0.distcp is missing, the marker says 7", id="lost file"),
        pytest.param(_remove_hidden_file, ".metadata is missing", id="lost metadata"),
        pytest.param(_shorten_file, "has 3 bytes, the marker says 7 bytes", id="short file"),
        pytest.param(_remove_marker, "no marker complete.json", id="no marker"),
        pytest.param(_break_marker, "cannot be read", id="broken marker"),
    ],
)
def test_damaged_checkpoint_is_skipped_and_named(
    tmp_path: Path, damage: Callable[[Path], None], want: str
):
    _committed(tmp_path, 5)
    damage(_committed(tmp_path, 6))

    found = folder.scan(tmp_path)
    assert [checkpoint.step for checkpoint in found.complete] == [5]
    (message,) = found.damaged
    assert want in message
    assert "step-00000006" in message


def test_commit_replaces_a_damaged_checkpoint_of_the_same_step(tmp_path: Path):
    _remove_file(_committed(tmp_path, 6))
    _committed(tmp_path, 6)
    assert _steps(tmp_path) == [6]
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000006"]


@pytest.mark.parametrize(
    ("damage", "want"),
    [
        pytest.param(_remove_file, "__0_0.distcp is missing, 7 bytes or more", id="lost file"),
        pytest.param(_shorten_file, "has 3 bytes, 7 bytes or more", id="short file"),
    ],
)
def test_attempt_that_lost_a_file_is_not_committed(
    tmp_path: Path, damage: Callable[[Path], None], want: str
):
    damage(_written(tmp_path, 7))
    with pytest.raises(folder.Damaged, match=want):
        folder.commit(tmp_path, 7, "a", 2, _LEAST)
    assert folder.scan(tmp_path) == folder.Scan((), ())
    assert not list(tmp_path.rglob(folder.MARKER))


def test_crash_while_the_replaced_checkpoint_is_removed_keeps_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _remove_file(_committed(tmp_path, 6))
    _written(tmp_path, 6, "b")

    def crash(path: Path, ignore_errors: bool) -> None:
        if path.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folder.shutil, "rmtree", crash)
        with pytest.raises(KeyboardInterrupt):
            folder.commit(tmp_path, 6, "b", 2, _LEAST)

    assert folder.remove_leftovers(tmp_path) == ("step-00000006.tmp-b-discarded",)
    assert _steps(tmp_path) == [6]


def test_leftovers_of_dead_writers_are_removed_and_nothing_else(tmp_path: Path):
    _committed(tmp_path, 5)
    _remove_marker(_committed(tmp_path, 6))
    _written(tmp_path, 7, "dead")
    (tmp_path / "notes.txt").write_text("of the user")

    assert folder.remove_leftovers(tmp_path) == ("step-00000007.tmp-dead",)
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["notes.txt", "step-00000005", "step-00000006"]


def test_only_complete_checkpoints_count_for_keeping(tmp_path: Path):
    for step in (1, 2, 3):
        _committed(tmp_path, step)
    _remove_file(_committed(tmp_path, 4))

    assert folder.keep_newest(tmp_path, 2) == ("step-00000001",)
    assert _steps(tmp_path) == [3, 2]
    assert (tmp_path / "step-00000004").exists()
