"""A stand-in for the public base image, for machines where no registry answers.

It has the base's name and shape (Debian bookworm, Python 3.12 in /usr/local), so the Dockerfiles
stay those of production. If an image of that name is already in our storage it is used as it is.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from localcluster import shell
from localcluster.errors import LocalClusterError
from localcluster.images import store
from localcluster.progress import Report, Step

BASE = "docker.io/library/python:3.12-slim-bookworm"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Shared libraries that Python's own modules link to.
LIBRARIES = (
    "ca-certificates,netbase,tzdata,libbz2-1.0,libcom-err2,libcrypt1,libexpat1,libffi8,libgdbm6,"
    "libkeyutils1,liblzma5,libncursesw6,libnsl2,libreadline8,libsqlite3-0,libssl3,libtirpc3,"
    "libuuid1,zlib1g"
)


def ensure(report: Report) -> None:
    """Make the base image unless there is one."""
    if store.exists(BASE):
        return
    with tempfile.TemporaryDirectory(prefix="rtj-base-", dir=store.root().parent) as folder:
        rootfs = Path(folder) / "rootfs"
        report(Step("base image", "Debian bookworm"))
        _debian(rootfs)
        report(Step("base image", "Python 3.12"))
        _python(rootfs)
        report(Step("base image", "commit"))
        _commit(rootfs)
    report(Step("base image", "Debian bookworm, Python 3.12", finished=True))


def _debian(rootfs: Path) -> None:
    shell.run(
        [
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            f"--include={LIBRARIES}",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            "bookworm",
            rootfs,
        ]
    )


def _python(rootfs: Path) -> None:
    """Copy this interpreter, without what others installed into it, to /usr/local."""
    source = Path(sys.base_prefix)
    if sys.version_info[:2] != (3, 12):
        raise LocalClusterError(
            f"the base image is made from Python 3.12, but this is {sys.version.split()[0]}; "
            "run localcluster with Python 3.12"
        )
    target = rootfs / "usr/local"
    (target / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(source / "bin/python3.12", target / "bin/python3.12")
    for alias in ("python3", "python"):
        (target / "bin" / alias).symlink_to("python3.12")
    shutil.copytree(
        source / "lib/python3.12",
        target / "lib/python3.12",
        symlinks=True,
        ignore=shutil.ignore_patterns("site-packages", "test", "config-3.12-*", "*.a"),
    )
    for library in (source / "lib").glob("libpython3*.so*"):
        shutil.copy2(library, target / "lib" / library.name, follow_symlinks=False)
    shutil.copytree(source / "include/python3.12", target / "include/python3.12")
    # The host's certificates: package indexes must be reachable from a build as from the host.
    shutil.copy2(CERTIFICATES, rootfs / CERTIFICATES.lstrip("/"))
    shell.run(["chroot", rootfs, "ldconfig"])
    shell.run(["chroot", rootfs, "python3", "-m", "ensurepip", "--root", "/"])


def _commit(rootfs: Path) -> None:
    container = store.buildah("from", "scratch")
    try:
        store.buildah("add", "--quiet", container, rootfs, "/")
        store.buildah(
            "config",
            "--env", "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
            "--env", "LANG=C.UTF-8",
            "--env", f"SSL_CERT_FILE={CERTIFICATES}",
            "--env", f"PIP_CERT={CERTIFICATES}",
            "--cmd", "python3",
            container,
        )  # fmt: skip
        store.buildah("commit", "--quiet", container, BASE)
    finally:
        store.buildah("rm", container)
