"""Every process of a cluster lives in a cgroup of ours: that is how it is found again.

Pid files go stale (a killed `up`, a reboot, a reused pid); membership in a cgroup does not. The
kernel also lets a whole group be stopped at one instant, which is what a frozen node is, and what
makes a kill look like a machine's death and not like processes that see each other die.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from localcluster import shell

MOUNT = Path("/sys/fs/cgroup")
KILL_SECONDS = 20


def unified() -> bool:
    """True with cgroup v2 alone, False with v1 or the hybrid of both."""
    return (MOUNT / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if unified():
        return [MOUNT]
    return sorted({path.resolve() for path in MOUNT.iterdir() if (path / "cgroup.procs").exists()})


def _tracking() -> Path:
    """The hierarchy in which every process of ours is, containers included."""
    return MOUNT if unified() else MOUNT / "freezer"


def create(group: str) -> None:
    """Create `group` in every hierarchy, because kubelet expects its root in each."""
    for hierarchy in _hierarchies():
        (hierarchy / group).mkdir(parents=True, exist_ok=True)
    if unified():
        enabled = (MOUNT / "cgroup.controllers").read_text().split()
        parent = MOUNT / Path(group).parent
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in enabled))
        return
    for setting in ("cpuset.cpus", "cpuset.mems"):  # empty at birth, and unusable while empty
        _inherit(MOUNT / "cpuset", group, setting)


def _inherit(hierarchy: Path, group: str, setting: str) -> None:
    folder = hierarchy
    if not (folder / setting).exists():
        return
    value = (folder / setting).read_text()
    for part in Path(group).parts:
        folder = folder / part
        (folder / setting).write_text(value)


def spawn(command: Sequence[str | Path], *, group: str, log: Path) -> None:
    """Start a daemon in `group` that outlives us; it joins the group before it runs."""
    (_tracking() / group).mkdir(parents=True, exist_ok=True)
    procs = _tracking() / group / "cgroup.procs"
    script = 'echo $$ > "$1" && exec >>"$2" 2>&1 </dev/null && shift 2 && exec "$@"'
    shell.run(["setsid", "--fork", "sh", "-c", script, "sh", procs, log, *command], cwd=Path("/"))


def pids(group: str) -> list[int]:
    """Processes in `group` and below."""
    found: list[int] = []
    for folder in _folders(_tracking() / group):
        try:
            found += [int(word) for word in (folder / "cgroup.procs").read_text().split()]
        except OSError:  # removed while we read
            continue
    return found


def _folders(top: Path) -> Iterator[Path]:
    """`top` and all below it, deepest first."""
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)


def freeze(group: str) -> None:
    """Stop every process of `group` at once; returns when all have stopped."""
    _set_frozen(group, frozen=True)
    shell.wait_until(f"freezing {group}", lambda: frozen(group), seconds=KILL_SECONDS)


def thaw(group: str) -> None:
    _set_frozen(group, frozen=False)


def _set_frozen(group: str, *, frozen: bool) -> None:
    folder = _tracking() / group
    if unified():
        (folder / "cgroup.freeze").write_text("1" if frozen else "0")
    else:
        (folder / "freezer.state").write_text("FROZEN" if frozen else "THAWED")


def frozen(group: str) -> bool:
    folder = _tracking() / group
    if not folder.exists():
        return False
    if unified():
        return "frozen 1" in (folder / "cgroup.events").read_text()
    return (folder / "freezer.state").read_text().strip() == "FROZEN"


def kill(group: str) -> None:
    """Kill every process of `group` while all are stopped, so that none can react to another."""
    if not (_tracking() / group).exists():
        return
    deadline = time.monotonic() + KILL_SECONDS
    while pids(group):
        _set_frozen(group, frozen=True)
        for pid in pids(group):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _set_frozen(group, frozen=False)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {pids(group)} of cgroup {group} do not die")
        time.sleep(shell.POLL_SECONDS)


def remove(group: str) -> None:
    """Remove the group, which must hold no process, from every hierarchy."""
    deadline = time.monotonic() + KILL_SECONDS
    for hierarchy in _hierarchies():
        for folder in _folders(hierarchy / group):
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:  # the kernel has not yet let go of the last process
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(shell.POLL_SECONDS)


def with_prefix(prefix: str) -> list[str]:
    """Top-level groups, in any hierarchy, whose name starts with `prefix`."""
    return sorted({path.name for top in _hierarchies() for path in top.glob(f"{prefix}*")})
