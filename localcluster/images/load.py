"""Lay an image into a node's containerd without copying it.

A push and an import would read, hash and unpack the trainer's 6 GB twice, two minutes in all.
Builder and runtime keep an unpacked layer in the same form (the upper folder of an overlay), so
each layer becomes a snapshot of containerd by hard links, under the chain id that containerd
itself would compute; then an archive that holds only manifest and configuration is imported.
containerd finds every layer already unpacked. Hard links are safe: nobody writes into a layer.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from localcluster import node, shell
from localcluster.errors import LocalClusterError
from localcluster.images import store
from localcluster.images.store import Image
from localcluster.layout import Layout

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


def load(layout: Layout, name: str, image: Image) -> None:
    """Make `image` known on node `name`; layers that are there already cost nothing."""
    ctr = node.ctr(layout, name)
    present = set(shell.run([*ctr, "snapshots", "list"]).stdout.split())
    parent = ""
    for chain, layer in zip(chain_ids(image), image.layers, strict=True):
        if chain not in present:
            _add_layer(layout, name, layer.files, chain, parent)
        parent = chain
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        archive.write(index_archive(image))
        archive.flush()
        shell.run([*ctr, "images", "import", archive.name])


def chain_ids(image: Image) -> list[str]:
    """Names of the image's snapshots: each digest covers the layer and all below it."""
    chain: list[str] = []
    for layer in image.layers:
        if not chain:
            chain.append(layer.diff_id)
            continue
        joined = f"{chain[-1]} {layer.diff_id}".encode()
        chain.append(f"sha256:{hashlib.sha256(joined).hexdigest()}")
    return chain


def _add_layer(layout: Layout, name: str, files: Path, chain: str, parent: str) -> None:
    snapshots = [*node.ctr(layout, name), "snapshots"]
    key = f"load-{chain}"
    shell.run([*snapshots, "remove", key], check=False)  # left by a load that was killed
    shell.run([*snapshots, "prepare", key, *([parent] if parent else [])])
    mount = shell.run([*snapshots, "mounts", "/unused", key]).stdout
    target = _upper_folder(mount, layout.node(name) / "containerd")
    _link(files, target)
    shell.run([*snapshots, "commit", chain, key])


def _link(files: Path, target: Path) -> None:
    """Fill `target` with hard links to `files`.

    While any buildah runs, its storage is mounted onto itself, and links across a mount are
    refused even on the same disk; in a mount namespace without that mount they work.
    """
    script = 'umount --recursive "$1" 2>/dev/null; exec cp -al "$2/." "$3"'
    private = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    linked = shell.run([*private, store.root() / "overlay", files, target], check=False)
    if linked.returncode != 0:  # the cache is on another file system
        shell.run(["cp", "-a", "--remove-destination", f"{files}/.", target])


def _upper_folder(mount: str, root: Path) -> Path:
    """The snapshot's own folder, from the mount command that containerd prints for it."""
    found = re.search(r"upperdir=([^,\s]+)", mount) or re.search(r"bind (\S+/fs) ", mount)
    if found is None:
        raise LocalClusterError(f"no snapshot folder in containerd's answer {mount!r}")
    return root / Path(found.group(1)).relative_to("/var/lib/containerd")


def index_archive(image: Image) -> bytes:
    """An OCI archive of the image without its layers."""
    layers = [
        {
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": layer.diff_id,
            "size": layer.size,
        }
        for layer in image.layers
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _descriptor("application/vnd.oci.image.config.v1+json", image.config),
        "layers": layers,
    }
    body = json.dumps(manifest).encode()
    top = {
        **_descriptor(MANIFEST_TYPE, body),
        "annotations": {"io.containerd.image.name": image.name},
    }
    index = {"schemaVersion": 2, "manifests": [top]}
    return _tar(
        [
            ("oci-layout", b'{"imageLayoutVersion": "1.0.0"}'),
            (f"blobs/sha256/{_sha256(image.config)}", image.config),
            (f"blobs/sha256/{_sha256(body)}", body),
            ("index.json", json.dumps(index).encode()),
        ]
    )


def _descriptor(kind: str, body: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": f"sha256:{_sha256(body)}", "size": len(body)}


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _tar(files: Iterable[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return buffer.getvalue()
