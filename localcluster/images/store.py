"""Our own buildah storage, apart from the one that the machine's user may have."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster import shell
from localcluster.layout import cache_root

RUN = Path("/run/rtj-images")


@dataclass(frozen=True)
class Layer:
    """One layer of an image: digest and size of its uncompressed archive, folder of its files."""

    diff_id: str
    size: int
    files: Path


@dataclass(frozen=True)
class Image:
    """What a container runtime needs of an image."""

    name: str
    id: str
    config: bytes
    layers: tuple[Layer, ...]


def root() -> Path:
    return cache_root() / "images"


def _run_root() -> Path:
    """Buildah's folder for what a reboot ends; one for each storage, or two would be mixed up."""
    return RUN / hashlib.sha256(str(root()).encode()).hexdigest()[:8]


def environment() -> dict[str, str]:
    # chroot isolation and host networking: the build needs no rights that a container lacks.
    return {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}


def _command(*arguments: str | Path) -> list[str | Path]:
    return ["buildah", "--root", root(), "--runroot", _run_root(), *arguments]


def buildah(*arguments: str | Path) -> str:
    """Run buildah on our storage and return what it printed."""
    return shell.run(_command(*arguments), env=environment()).stdout.strip()


def buildah_stream(*arguments: str | Path, on_line: Callable[[str], None], log: Path) -> None:
    """Run a long buildah command; its output goes to `log` and, line by line, to `on_line`."""
    shell.stream(_command(*arguments), on_line, env=environment(), log=log)


def exists(name: str) -> bool:
    done = shell.run(_command("inspect", "--type", "image", name), env=environment(), check=False)
    return done.returncode == 0


def label(name: str, key: str) -> str | None:
    """Value of a label of the image, None if image or label are missing."""
    done = shell.run(_command("inspect", "--type", "image", name), env=environment(), check=False)
    if done.returncode != 0:
        return None
    labels = json.loads(done.stdout)["OCIv1"]["config"].get("Labels") or {}
    return labels.get(key)


def image(name: str) -> Image:
    """Read an image's configuration and find its layers on disk, lowest first."""
    described = json.loads(buildah("inspect", "--type", "image", name))
    config = described["Config"].encode()
    by_id = {entry["id"]: entry for entry in _layer_records()}
    images = json.loads((root() / "overlay-images" / "images.json").read_text())
    record = next(entry for entry in images if entry["id"] == described["FromImageID"])
    layers: list[Layer] = []
    current = record["layer"]
    while current:
        entry = by_id[current]
        files = root() / "overlay" / current / "diff"
        layers.append(Layer(entry["diff-digest"], entry["diff-size"], files))
        current = entry.get("parent", "")
    layers.reverse()
    return Image(name, described["FromImageID"], config, tuple(layers))


def _layer_records() -> list[dict[str, Any]]:
    return json.loads((root() / "overlay-layers" / "layers.json").read_text())
