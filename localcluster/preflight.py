"""Check the machine and install the Debian packages that are missing, and only those."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcluster import shell
from localcluster.errors import LocalClusterError
from localcluster.layout import cache_root
from localcluster.lock import exclusive
from localcluster.progress import Report, Step, silent

TASK = "Debian packages"
# Package -> something that it brings: a program, or a file by its full path.
PACKAGES = {
    "buildah": "buildah",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
    "containerd": "containerd",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "iproute2": "ip",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "openssl": "openssl",
    "runc": "runc",
    "util-linux": "nsenter",
}
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = "#!/bin/sh\n# made by localcluster while it installs packages\nexit 101\n"


def ensure(report: Report = silent) -> None:
    """Make the machine fit for a cluster, or say what is wrong with it."""
    if os.geteuid() != 0:
        raise LocalClusterError("the local cluster makes namespaces and cgroups; run it as root")
    absent = missing()
    if absent:
        with exclusive(cache_root() / "apt.lock"):
            _install(missing(), report)
    if missing():
        raise LocalClusterError(f"still missing after installation: {', '.join(missing())}")


def missing() -> list[str]:
    """Debian packages whose program or file is not on this machine."""
    return [package for package, proof in PACKAGES.items() if not _present(proof)]


def _present(proof: str) -> bool:
    return Path(proof).exists() if proof.startswith("/") else shutil.which(proof) is not None


def _install(packages: list[str], report: Report) -> None:
    if shutil.which("apt-get") is None:
        raise LocalClusterError(f"no apt-get here; install by hand: {', '.join(packages)}")
    if not packages:
        return
    log = cache_root() / "apt.log"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]

    def show(line: str) -> None:
        report(Step(TASK, line))

    with _services_stay_off():
        shell.stream(["apt-get", "update"], show, env=environment, log=log)
        shell.stream(install, show, env=environment, log=log)
    report(Step(TASK, f"installed {', '.join(packages)}", finished=True))


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """Keep apt from starting containerd's service: nodes run their own."""
    ours = not POLICY.exists() or POLICY.read_text() == POLICY_TEXT
    if ours:
        POLICY.write_text(POLICY_TEXT)
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink(missing_ok=True)
