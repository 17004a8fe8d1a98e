"""Remove every trace of a cluster, whatever state it is in and however it ended."""

from __future__ import annotations

from pathlib import Path

from localcluster import cgroups, network, node, shell
from localcluster.layout import STATE_ROOT, Layout

# Folders that we made on the host for nodes to mount over; kept in a file because an `up` may be
# killed at any moment, and a folder that was there before us must stay.
CREATED = STATE_ROOT / "created-folders"


def remove_all(layout: Layout) -> None:
    """Processes first, since they hold all else; then network, mounts, cgroups and files."""
    groups = cgroups.with_prefix(f"{layout.prefix}-")
    for group in groups:
        cgroups.kill(group)
    links, namespaces = network.leftovers(layout)
    for link in links:
        shell.run(["ip", "link", "del", link], check=False)  # its peer may have taken it along
    for namespace in namespaces:
        shell.run(["ip", "netns", "del", namespace])
    _unmount_below(layout.state)
    for group in groups:
        cgroups.remove(group)
    _delete(layout.state)
    _remove_created_folders()


def remove_node(layout: Layout, name: str) -> None:
    """Remove what a node leaves behind, so that it can be started anew, empty."""
    group = layout.node_key(name)
    cgroups.kill(group)
    network.delete_node(layout, name)
    _unmount_below(layout.node(name))
    cgroups.remove(group)
    _delete(layout.node(name))


def create_mount_points() -> None:
    """Make the folders that nodes mount over, and remember which were not there."""
    CREATED.parent.mkdir(parents=True, exist_ok=True)
    for target in node.MOUNTS:
        if not Path(target).exists():
            with CREATED.open("a") as record:
                record.write(f"{target}\n")
            Path(target).mkdir(parents=True)


def _remove_created_folders() -> None:
    """Remove them with the last cluster: doing so earlier would unmount other clusters' nodes."""
    if not STATE_ROOT.exists() or any(path.is_dir() for path in STATE_ROOT.iterdir()):
        return
    if CREATED.exists():
        for target in CREATED.read_text().split():
            if target == str(network.NAMESPACES):  # `ip netns` mounts this folder on itself
                shell.run(["umount", target], check=False)
            shell.run(["rmdir", target], check=False)
        CREATED.unlink()
    STATE_ROOT.rmdir()


def _delete(folder: Path) -> None:
    """Delete a tree of many thousand links; never through a mount to somebody else's files."""
    shell.run(["rm", "-rf", "--one-file-system", folder])


def _unmount_below(folder: Path) -> None:
    """Detach mounts in `folder`, deepest first. Nodes' own mounts end with their processes."""
    targets = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for target in sorted((t for t in targets if t.startswith(f"{folder}/")), reverse=True):
        shell.run(["umount", "--lazy", target], check=False)
