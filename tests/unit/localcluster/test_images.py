"""What is decided about images without a builder or a runtime."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from localcluster.images.build import CHECKOUT, PRODUCTS, source_digest
from localcluster.images.load import chain_ids, index_archive
from localcluster.images.store import Image, Layer


def _image(*diff_ids: str) -> Image:
    layers = tuple(Layer(diff_id, 10, Path("/unused")) for diff_id in diff_ids)
    return Image("localhost/x:dev", "id", b'{"os": "linux"}', layers)


def test_a_chain_id_covers_the_layers_below() -> None:
    first, second, third = "sha256:a", "sha256:b", "sha256:c"
    want_second = "sha256:" + hashlib.sha256(b"sha256:a sha256:b").hexdigest()
    want_third = "sha256:" + hashlib.sha256(f"{want_second} sha256:c".encode()).hexdigest()
    assert chain_ids(_image(first, second, third)) == [first, want_second, want_third]


def test_images_with_the_same_base_share_its_snapshots() -> None:
    base = ("sha256:a", "sha256:b")
    assert chain_ids(_image(*base, "sha256:c"))[:2] == chain_ids(_image(*base, "sha256:d"))[:2]


def test_the_archive_names_the_image_and_holds_manifest_and_configuration_only() -> None:
    image = _image("sha256:a", "sha256:b")
    bodies = _unpack(index_archive(image))
    index = json.loads(bodies["index.json"])
    (top,) = index["manifests"]
    assert top["annotations"]["io.containerd.image.name"] == "localhost/x:dev"
    manifest = json.loads(bodies[_blob(top["digest"])])
    assert bodies[_blob(manifest["config"]["digest"])] == image.config
    assert [layer["digest"] for layer in manifest["layers"]] == ["sha256:a", "sha256:b"]
    assert len(bodies) == 4


def _unpack(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        streams = {entry.name: opened.extractfile(entry) for entry in opened.getmembers()}
        return {name: stream.read() for name, stream in streams.items() if stream}


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile.x").write_text(
        "FROM base AS code\nCOPY a.toml b.md ./\nCOPY src src\nFROM base\nCOPY --from=code /i /l\n"
    )
    (tmp_path / "src").mkdir()
    for name in ("a.toml", "b.md", "src/code.py", "other.py"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("changed", ["Dockerfile.x", "a.toml", "b.md", "src/code.py", "src/new.py"])
def test_the_source_digest_changes_with(changed: str, checkout: Path) -> None:
    before = source_digest(checkout, "Dockerfile.x")
    with (checkout / changed).open("a") as file:
        file.write("# changed\n")
    assert source_digest(checkout, "Dockerfile.x") != before


def test_the_source_digest_ignores_what_is_not_copied(checkout: Path) -> None:
    before = source_digest(checkout, "Dockerfile.x")
    (checkout / "other.py").write_text("changed")
    (checkout / "src/__pycache__").mkdir()
    (checkout / "src/__pycache__/code.pyc").write_text("compiled")
    assert source_digest(checkout, "Dockerfile.x") == before


@pytest.mark.parametrize("dockerfile", PRODUCTS.values())
def test_every_copied_path_is_let_through_by_dockerignore(dockerfile: str) -> None:
    allowed = {
        line.removeprefix("!")
        for line in (CHECKOUT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    lines = (CHECKOUT / dockerfile).read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    sources = {source for copy in copies for source in copy if not copy[0].startswith("--from")}
    assert sources <= allowed
