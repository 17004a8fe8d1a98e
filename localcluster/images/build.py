"""Build the images of the cluster with buildah, from the Dockerfiles that production uses."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from localcluster.images import base, store
from localcluster.images.store import Image
from localcluster.layout import cache_root
from localcluster.lock import exclusive
from localcluster.programs import Programs
from localcluster.progress import Report, Step, silent

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PAUSE = "localhost/pause:1"
# Image name -> Dockerfile in the checkout.
PRODUCTS = {
    "localhost/rtj-operator:dev": "Dockerfile.operator",
    "localhost/rtj-trainer:dev": "Dockerfile.trainer",
}
UV_CACHE_IN_BUILD = "/var/cache/rtj-uv"
COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)
INSTRUCTION = re.compile(r"^[A-Z]+ ", re.MULTILINE)
# Label of every image of ours: digest of what it was built from.
SOURCE_LABEL = "rtj.localcluster.source"


def products(report: Report = silent) -> list[Image]:
    """Build operator and trainer; unchanged layers come from buildah's cache."""
    with _alone():
        base.ensure(report)
        for name, dockerfile in PRODUCTS.items():
            source = source_digest(CHECKOUT, dockerfile)
            if store.label(name, SOURCE_LABEL) != source:
                _build(name, dockerfile, source, report)
        return [store.image(name) for name in PRODUCTS]


def pause(programs: Programs) -> Image:
    """The image of every pod's first process: one static program of our own."""
    source = hashlib.sha256(programs["pause"].read_bytes()).hexdigest()
    if store.label(PAUSE, SOURCE_LABEL) != source:  # else no lock: others may build for minutes
        with _alone():
            _build_pause(programs["pause"], source)
    return store.image(PAUSE)


def source_digest(checkout: Path, dockerfile: str) -> str:
    """Digest of a Dockerfile and of every file that its COPY lines take from the checkout.

    Asking buildah whether a build would change anything takes four seconds, this a few
    milliseconds.
    """
    text = (checkout / dockerfile).read_text()
    digest = hashlib.sha256(text.encode())
    for path in _copied_files(checkout, text):
        digest.update(f"\n{path.relative_to(checkout)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _copied_files(checkout: Path, dockerfile: str) -> Iterator[Path]:
    for sources in COPY.findall(dockerfile):
        for source in sources.split():
            top = checkout / source
            found = sorted(top.rglob("*")) if top.is_dir() else [top]
            yield from (p for p in found if p.is_file() and "__pycache__" not in p.parts)


def existing(names: Iterable[str]) -> list[Image]:
    """Images as they were built last, for a node that comes back empty."""
    return [store.image(name) for name in names]


def _alone() -> AbstractContextManager[None]:
    store.root().mkdir(parents=True, exist_ok=True)
    return exclusive(cache_root() / "images.lock")


def _build(name: str, dockerfile: str, source: str, report: Report) -> None:
    task = f"image {name.split('/')[-1].split(':')[0]}"
    store.buildah("rm", "--all")  # containers of a build that was killed; nobody else builds here
    total = len(INSTRUCTION.findall((CHECKOUT / dockerfile).read_text()))
    steps = 0

    def follow(line: str) -> None:
        nonlocal steps
        steps += "STEP" in line
        report(Step(task, line.strip(), steps, total))

    uv_cache = _uv_cache()
    uv_cache.mkdir(parents=True, exist_ok=True)
    store.buildah_stream(
        "build",
        "--layers",
        "--network=host",
        "--pull-never",
        f"--build-arg=UV_CACHE_DIR={UV_CACHE_IN_BUILD}",
        f"--volume={uv_cache}:{UV_CACHE_IN_BUILD}",
        f"--label={SOURCE_LABEL}={source}",
        f"--file={CHECKOUT / dockerfile}",
        f"--tag={name}",
        CHECKOUT,
        on_line=follow,
        log=cache_root() / f"{dockerfile}.log",
    )
    report(Step(task, name, finished=True))


def _uv_cache() -> Path:
    """Where uv on this machine keeps its downloads: a build then fetches nothing twice."""
    configured = os.environ.get("UV_CACHE_DIR")
    return Path(configured) if configured else cache_root().parent / "uv"


def _build_pause(program: Path, source: str) -> None:
    container = store.buildah("from", "scratch")
    try:
        store.buildah("copy", "--quiet", container, program, "/pause")
        label = f"{SOURCE_LABEL}={source}"
        store.buildah("config", "--entrypoint", '["/pause"]', "--label", label, container)
        store.buildah("commit", "--quiet", container, PAUSE)
    finally:
        store.buildah("rm", container)
