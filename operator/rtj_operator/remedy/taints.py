"""Our NoSchedule taint: the one thing the operator does to a node in this version.

Taints are one atomic list of many writers, so an apply would erase other owners' (tested). A JSON
patch tests the node's UID and the very list that was read; a failed test reads again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from rtj_api import names
from rtj_operator.kube.client import KubeClient, PatchOperation
from rtj_operator.kube.errors import Conflict, Invalid, KubeError, NotFound
from rtj_operator.kube.objects import NODES, Node, Taint

ATTEMPTS: Final = 5


def jobs_tainting(node: Node) -> tuple[str, ...]:
    """UIDs of the jobs whose taint is on the node."""
    return tuple(t.value for t in node.spec.taints if t.key == names.TAINT_FAULTY)


async def taint(
    client: KubeClient, name: str, uid: str, job_uid: str, provider_id: str = ""
) -> Node | None:
    """Put the job's taint on that very node. None: the node is gone, or the UID or the machine
    (`provider_id`, "" if none was known) is another one.

    One taint a node: a second job that finds it there leaves it. Raises KubeError.
    """
    ours = Taint(key=names.TAINT_FAULTY, value=job_uid, effect="NoSchedule")

    def tainted(node: Node) -> tuple[Taint, ...] | None:
        if provider_id and node.spec.provider_id != provider_id:
            return None
        seen = node.spec.taints
        return seen if _faulty(seen) else (*seen, ours)

    return await _edit(client, name, uid, tainted)


async def release(client: KubeClient, name: str, uid: str, job_uid: str) -> Node | None:
    """Take the job's taint off that very node, and no other. None: the node is gone."""

    def without(node: Node) -> tuple[Taint, ...]:
        seen = node.spec.taints
        return tuple(t for t in seen if (t.key, t.value) != (names.TAINT_FAULTY, job_uid))

    return await _edit(client, name, uid, without)


def _faulty(taints: Sequence[Taint]) -> bool:
    return any(t.key == names.TAINT_FAULTY for t in taints)


async def _edit(client: KubeClient, name: str, uid: str, change: "Change") -> Node | None:
    for _ in range(ATTEMPTS):
        try:
            node = await client.get(NODES, "", name)
            if node.metadata.uid != uid:
                return None
            wanted = change(node)
            if wanted is None:
                return None
            if wanted == node.spec.taints:
                return node
            return await client.json_patch(NODES, "", name, _patch(node, wanted))
        except NotFound:
            return None
        except (Conflict, Invalid):
            continue
    raise KubeError(f"taints of node {name} changed {ATTEMPTS} times while they were edited")


# The taints that a node is to have; None: it is the wrong one.
type Change = Callable[[Node], tuple[Taint, ...] | None]


def _patch(node: Node, wanted: tuple[Taint, ...]) -> tuple[PatchOperation, ...]:
    same_node = PatchOperation(op="test", path="/metadata/uid", value=node.metadata.uid)
    write = PatchOperation(op="add", path="/spec/taints", value=wanted)
    if node.spec.taints:
        unchanged = PatchOperation(op="test", path="/spec/taints", value=node.spec.taints)
        return same_node, unchanged, write
    # A list that is absent cannot be tested: the whole node must be the one that was read.
    version = node.metadata.resource_version
    unchanged = PatchOperation(op="test", path="/metadata/resourceVersion", value=version)
    return same_node, unchanged, write
