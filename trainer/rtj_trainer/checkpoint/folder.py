"""The checkpoint folder on the shared file system: what is complete, what is left over.

    DIR/step-000400.tmp-TOKEN/    being written, or left by a dead writer
    DIR/step-000400/              complete: renamed after its marker was written
    DIR/step-000400/complete.json the marker: every file with its size

The marker is written last and then the folder renamed, so a writer that dies at any moment leaves
a `.tmp-` folder, and a copy or a file system that lost something shows a size that differs.
Torch-free.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

MARKER: Final = "complete.json"
_STEP: Final = re.compile(r"step-(\d+)")
_TEMPORARY: Final = re.compile(r"step-\d+\.tmp-.+")


class Damaged(Exception):
    """A folder that looks like a checkpoint is not whole; the text says in what."""


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """What a complete checkpoint consists of."""

    step: int
    world_size: int
    # Name relative to the folder: size in bytes.
    files: dict[str, int]
    format: int = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was found complete."""

    step: int
    world_size: int
    path: Path


@dataclass(frozen=True, slots=True)
class Scan:
    """All checkpoints of a folder."""

    # Newest first.
    complete: tuple[Checkpoint, ...]
    # What is wrong with each of the others, which are left alone.
    damaged: tuple[str, ...]


def final_path(root: Path, step: int) -> Path:
    """Where the complete checkpoint of a step is."""
    return root / f"step-{step:08d}"


def temporary_path(root: Path, step: int, token: str) -> Path:
    """Where one attempt to write it is; `token` is the same on all ranks and never used again."""
    return root / f"{final_path(root, step).name}.tmp-{token}"


def commit(
    root: Path, step: int, token: str, world_size: int, least: Mapping[str, int]
) -> Checkpoint:
    """Make a written attempt the checkpoint of its step; `least` is the size that each of its files
    has at least. Raises Damaged or OSError and leaves the attempt.

    One rank calls it, after all ranks have written and synced their files.
    """
    temporary, final = temporary_path(root, step, token), final_path(root, step)
    sizes = _sizes(temporary)
    for name, size in least.items():
        if (found := sizes.get(name, -1)) < size:
            state = "is missing" if found < 0 else f"has {found} bytes"
            raise Damaged(f"{temporary}: {name} {state}, {size} bytes or more were written")
    marker = Marker(step=step, world_size=world_size, files=sizes)
    _write_synced(temporary / MARKER, msgspec.json.encode(marker))
    _sync_folder(temporary)
    # Damaged, else training would have gone on from it. Removed last: while that takes its time, a
    # crash must not leave both under temporary names.
    doomed = _put_aside(final, token) if final.exists() else None
    temporary.rename(final)
    _sync_folder(root)
    if doomed is not None:
        shutil.rmtree(doomed, ignore_errors=True)
    return Checkpoint(step, world_size, final)


def verify(path: Path) -> Checkpoint:
    """The checkpoint in a folder; raises Damaged unless it is whole."""
    try:
        marker = msgspec.json.decode((path / MARKER).read_bytes(), type=Marker)
    except FileNotFoundError:
        raise Damaged(f"{path}: no marker {MARKER}") from None
    except (msgspec.DecodeError, OSError) as error:
        raise Damaged(f"{path}: marker {MARKER} cannot be read: {error}") from error
    sizes = _sizes(path)
    for name, want in marker.files.items():
        if (size := sizes.get(name)) != want:
            state = "is missing" if size is None else f"has {size} bytes"
            raise Damaged(f"{path}: {name} {state}, the marker says {want} bytes")
    return Checkpoint(marker.step, marker.world_size, path)


def scan(root: Path) -> Scan:
    """Judge every checkpoint of a folder; a missing folder has none."""
    complete: list[Checkpoint] = []
    damaged: list[str] = []
    for path in _listed(root, _STEP):
        try:
            complete.append(verify(path))
        except Damaged as error:
            damaged.append(str(error))
    complete.sort(key=lambda checkpoint: checkpoint.step, reverse=True)
    return Scan(tuple(complete), tuple(damaged))


def remove_leftovers(root: Path) -> tuple[str, ...]:
    """Remove what dead writers left; only when no writer lives. Returns the names removed."""
    removed = tuple(path.name for path in _listed(root, _TEMPORARY))
    for name in removed:
        shutil.rmtree(root / name, ignore_errors=True)
    return removed


def keep_newest(root: Path, count: int) -> tuple[str, ...]:
    """Remove the complete checkpoints beyond the newest `count`. Returns the names removed."""
    old = scan(root).complete[count:]
    for checkpoint in old:
        shutil.rmtree(_put_aside(checkpoint.path, "old"), ignore_errors=True)
    return tuple(checkpoint.path.name for checkpoint in old)


def remove_attempt(root: Path, step: int, token: str) -> None:
    """Remove a failed attempt and give its space back."""
    shutil.rmtree(temporary_path(root, step, token), ignore_errors=True)


def _put_aside(path: Path, token: str) -> Path:
    """Rename a folder to be removed, so that it never is half there under its final name."""
    doomed = path.with_name(f"{path.name}.tmp-{token}-discarded")
    shutil.rmtree(doomed, ignore_errors=True)
    return path.rename(doomed)


def _listed(root: Path, pattern: re.Pattern[str]) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if pattern.fullmatch(path.name))


def _sizes(path: Path) -> dict[str, int]:
    return {
        str(file.relative_to(path)): file.stat().st_size
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != MARKER
    }


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Make names durable; on a file system without it (some network ones) the rename must do."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
