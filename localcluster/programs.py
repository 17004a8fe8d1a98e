"""The pinned programs of the cluster: built from `tools/`, kept in a cache outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from localcluster import shell
from localcluster.errors import LocalClusterError
from localcluster.layout import cache_root
from localcluster.lock import exclusive
from localcluster.progress import Report, Step, silent

TOOLS = Path(__file__).resolve().parent.parent / "tools"
TASK = "Kubernetes programs"
MODULE = "github.com/resilient-training/operator/tools"
# Program name -> Go package. The pins are in tools/go.mod.
PACKAGES = {
    "coredns": f"{MODULE}/coredns",
    "etcd": "go.etcd.io/etcd/server/v3",
    "helm": "helm.sh/helm/v4/cmd/helm",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "pause": f"{MODULE}/pause",
}
# `go build` names etcd's program after its folder.
BUILT_AS = {"etcd": "server"}
# The fake kubelets of bench/fleet: a module of its own, which nothing else needs built.
KWOK_TOOLS = TOOLS / "kwok"
KWOK_PACKAGE = "sigs.k8s.io/kwok/cmd/kwok"
# Nobody debugs these programs: a quarter less work for the compiler without debug tables.
_GO_FLAGS = ["-trimpath", "-gcflags=all=-dwarf=false"]
# Fewer collections of the compiler's own garbage.
_GO_ENVIRONMENT = {"GOGC": "400", "CGO_ENABLED": "0"}
# What setup-envtest provides; taken from KUBEBUILDER_ASSETS when that is set.
ENVTEST = ("etcd", "kube-apiserver", "kubectl")


@dataclass(frozen=True)
class Programs:
    """Paths of the programs by name."""

    paths: dict[str, Path]

    def __getitem__(self, name: str) -> Path:
        return self.paths[name]


def ensure(report: Report = silent) -> Programs:
    """Return the programs; builds what is in neither KUBEBUILDER_ASSETS nor the cache."""
    paths = _from_assets()
    wanted = [name for name in PACKAGES if name not in paths]
    folder = cache_root() / "tools" / cache_key(wanted)
    if not folder.exists():
        with exclusive(cache_root() / "tools.lock"):
            if not folder.exists():
                _build(wanted, folder, report)
    paths.update({name: folder / name for name in wanted})
    return Programs(paths)


def kwok_path() -> Path:
    """Where kwok's program of the present pins is, once it is built."""
    digest = hashlib.sha256(b"".join((KWOK_TOOLS / f).read_bytes() for f in ("go.mod", "go.sum")))
    return cache_root() / "kwok" / digest.hexdigest()[:16] / "kwok"


def ensure_kwok(report: Report = silent) -> Path:
    """Return kwok's program; builds it when it is not in the cache."""
    program = kwok_path()
    if not program.exists():
        with exclusive(cache_root() / "tools.lock"):
            if not program.exists():
                _build_kwok(program, report)
    return program


def _build_kwok(program: Path, report: Report) -> None:
    """Rename at the end: a killed build leaves no program that is half written."""
    _need_go()
    program.parent.mkdir(parents=True, exist_ok=True)
    temporary = program.with_suffix(".building")
    report(Step(TASK, "building kwok"))
    command = ["go", "build", *_GO_FLAGS, "-ldflags=-s -w", "-o", str(temporary), KWOK_PACKAGE]
    shell.stream(
        command,
        lambda line: report(Step(TASK, line)),
        cwd=KWOK_TOOLS,
        env=os.environ | _GO_ENVIRONMENT,
        log=program.parent / "build.log",
    )
    temporary.rename(program)


def _need_go() -> None:
    if shutil.which("go") is None:
        raise LocalClusterError(
            "the program `go` is missing; install Go 1.26 or newer, "
            "or set KUBEBUILDER_ASSETS and put the rest on this machine by hand"
        )


def _from_assets() -> dict[str, Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return {}
    found = {name: Path(assets) / name for name in ENVTEST}
    missing = [name for name, path in found.items() if not os.access(path, os.X_OK)]
    if missing:
        raise LocalClusterError(
            f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}; "
            "fill it with setup-envtest or unset it"
        )
    return found


def cache_key(names: Iterable[str]) -> str:
    """Changes when a pin, one of our own sources or the set of programs changes."""
    digest = hashlib.sha256("\n".join(sorted(names)).encode())
    for path in sorted([TOOLS / "go.mod", TOOLS / "go.sum", *TOOLS.glob("*/*.go")]):
        digest.update(f"\n{path.relative_to(TOOLS)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(names: list[str], folder: Path, report: Report) -> None:
    """Build into a temporary folder and rename it: a killed build leaves no half cache."""
    _need_go()
    folder.parent.mkdir(parents=True, exist_ok=True)
    for leftover in folder.parent.glob("building-*"):
        shutil.rmtree(leftover)
    temporary = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    report(Step(TASK, "downloading modules"))
    packages = [PACKAGES[name] for name in names]
    total = len(shell.run(["go", "list", "-deps", *packages], cwd=TOOLS).stdout.split())
    compiled = 0

    def count(line: str) -> None:
        nonlocal compiled
        compiled += 1
        report(Step(TASK, line, compiled, total))

    flags = ["-v", *_GO_FLAGS, f"-ldflags={_ldflags()}"]
    shell.stream(
        ["go", "build", *flags, "-o", f"{temporary}/", *packages],
        count,
        cwd=TOOLS,
        env=os.environ | _GO_ENVIRONMENT,
        log=folder.parent / "build.log",
    )
    for name in names:
        (temporary / BUILT_AS.get(name, name)).rename(temporary / name)
    temporary.rename(folder)
    report(Step(TASK, f"{len(names)} programs built", finished=True))


def _ldflags() -> str:
    """Stamp the versions: without one the API server calls itself v0.0.0 and clients object."""
    kubernetes = _pinned("k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    component = "k8s.io/component-base/version"
    helm = _pinned("helm.sh/helm/v4")
    return " ".join(
        [
            "-s -w",
            f"-X {component}.gitVersion={kubernetes}",
            f"-X {component}.gitMajor={major}",
            f"-X {component}.gitMinor={minor}",
            f"-X helm.sh/helm/v4/internal/version.version={helm}",
        ]
    )


def _pinned(module: str) -> str:
    for line in (TOOLS / "go.mod").read_text().splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == module and words[1].startswith("v"):
            return words[1]
    raise LocalClusterError(f"tools/go.mod does not pin {module}; add it to its require block")
