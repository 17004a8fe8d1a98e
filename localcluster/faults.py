"""Faults that are real: what a node does when it dies, hangs, is cut off or is reported bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from localcluster import cgroups, network, node, shell
from localcluster.api import Api
from localcluster.errors import UnknownContainer, UnknownNode
from localcluster.layout import Layout


class Faults:
    """Injects and ends faults of the nodes of one cluster."""

    def __init__(self, layout: Layout, names: Callable[[], Sequence[str]]) -> None:
        self._layout = layout
        self._names = names

    def kill_node(self, name: str) -> None:
        """End every process of the node at one instant, containers and daemons alike.

        The kernel closes their connections, so peers learn of it at once; for a death in silence
        call `partition_node` first.
        """
        cgroups.kill(self._group(name))

    def freeze_node(self, name: str) -> None:
        """Stop every process of the node: connections stay open, nothing answers."""
        cgroups.freeze(self._group(name))

    def thaw_node(self, name: str) -> None:
        cgroups.thaw(self._group(name))

    def partition_node(self, name: str) -> None:
        """Cut the node's link; its processes go on and its pods reach each other."""
        self._group(name)
        network.set_link(self._layout, name, up=False)

    def heal_node(self, name: str) -> None:
        self._group(name)
        network.set_link(self._layout, name, up=True)

    def kill_container(self, name: str, namespace: str, pod: str, container: str) -> None:
        """SIGKILL the first process of a container, which no process inside can do; with it its
        whole PID namespace ends. Fails if the node runs no such container."""
        self._group(name)
        wanted = {
            "io.kubernetes.pod.namespace": namespace,
            "io.kubernetes.pod.name": pod,
            "io.kubernetes.container.name": container,
        }
        query = ",".join(f'labels."{key}"=={value}' for key, value in wanted.items())
        ctr = node.ctr(self._layout, name)
        running = set(shell.run([*ctr, "tasks", "list", "--quiet"]).stdout.split())
        found = shell.run([*ctr, "containers", "list", "--quiet", query]).stdout.split()
        alive = [identity for identity in found if identity in running]
        if not alive:
            raise UnknownContainer(name, namespace, pod, container)
        shell.run([*ctr, "tasks", "kill", "--signal", "SIGKILL", alive[0]])

    def condition(
        self, name: str, kind: str, status: str, reason: str = "LocalFault", message: str = ""
    ) -> None:
        """Set a condition of the Node, as a node monitor would; kubelet leaves it alone."""
        self._group(name)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message or f"set by localcluster on {name}",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        path = f"/api/v1/nodes/{name}/status"
        Api(self._layout).patch(path, {"status": {"conditions": [entry]}})

    def _group(self, name: str) -> str:
        known = list(self._names())
        if name not in known:
            raise UnknownNode(name, known)
        return self._layout.node_key(name)
