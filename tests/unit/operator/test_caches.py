"""Which job a change concerns, and how many nodes of a type there are."""

import msgspec
import pytest

from rtj_api import names
from rtj_operator.kube.objects import Meta, Node, NodeLabels, NodeMeta, Pod, PodSpec
from rtj_operator.work.caches import Caches
from rtj_operator.work.nodes import NodeCount

GPU, CPU = "p5.48xlarge", "m6i.large"
KEPT = "node.kubernetes.io/instance-type"


def a_node(name: str, version: int, ready: str = "True", kind: str = GPU) -> Node:
    """As the API server sends it, with much that nobody reads."""
    sent = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {KEPT: kind, **{f"label-{n}": "x" * 40 for n in range(40)}},
        },
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasMemory"},
                {"type": "Ready", "status": ready, "reason": "KubeletReady"},
            ]
        },
    }
    return msgspec.json.decode(msgspec.json.encode(sent), type=Node)


def a_pod(job: str, node: str, version: int = 1) -> Pod:
    meta = Meta(
        name=f"{job}-{node}",
        namespace="ns",
        uid=f"uid-{job}-{node}",
        resource_version=str(version),
        labels={names.LABEL_JOB: job},
    )
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


class Scene:
    """Caches, and the jobs that their changes concerned."""

    def __init__(self) -> None:
        self.concerned: list[str] = []
        self.caches = Caches(lambda key: self.concerned.append(key[1]), lambda _uid: None)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_node_concerns_the_jobs_with_a_pod_on_it_alone(scene: Scene) -> None:
    for name in ("n1", "n2"):
        scene.caches.nodes.absorb(a_node(name, 1))
    for job, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "")):
        scene.caches.pods.absorb(a_pod(job, node))
    scene.concerned.clear()
    scene.caches.nodes.absorb(a_node("n1", 2, ready="Unknown"))
    assert sorted(scene.concerned) == ["a", "b"]


def test_heartbeat_of_a_node_concerns_nobody(scene: Scene) -> None:
    scene.caches.nodes.absorb(a_node("n1", 1))
    scene.caches.pods.absorb(a_pod("a", "n1"))
    scene.concerned.clear()
    scene.caches.nodes.absorb(a_node("n1", 2))
    assert scene.concerned == []


def test_pod_that_is_bound_later_is_found_by_its_node(scene: Scene) -> None:
    scene.caches.pods.absorb(a_pod("a", ""))
    (pod,) = scene.caches.pods
    bound = msgspec.structs.replace(
        pod,
        spec=PodSpec(node_name="n1"),
        metadata=msgspec.structs.replace(pod.metadata, resource_version="2"),
    )
    scene.caches.pods.absorb(bound)
    assert scene.caches.pods.group("n1") == (bound,)


def test_nodes_are_counted_by_type_as_they_come_change_and_go(scene: Scene) -> None:
    nodes, counts = scene.caches.nodes, scene.caches.node_counts
    for version, (name, kind) in enumerate([("n1", GPU), ("n2", GPU), ("n3", CPU)], start=1):
        nodes.absorb(a_node(name, version, kind=kind))
    assert counts.of((GPU,)) == NodeCount(total=2, not_ready=0)
    nodes.absorb(a_node("n1", 10, ready="Unknown"))
    assert counts.of((GPU,)) == NodeCount(total=2, not_ready=1)
    assert counts.of((GPU, CPU)) == NodeCount(total=3, not_ready=1)
    nodes.absorb(a_node("n1", 11, ready="Unknown", kind=CPU))
    assert counts.of((GPU,)) == NodeCount(total=1, not_ready=0)
    nodes.remove(a_node("n1", 12))
    assert counts.of(()) == NodeCount(total=2, not_ready=0)
    assert counts.of(("unknown",)) == NodeCount(total=0, not_ready=0)


def test_of_a_node_only_what_is_read_is_kept() -> None:
    node = a_node("n1", 1)
    assert node.metadata == NodeMeta(
        name="n1", uid="uid-n1", resource_version="1", labels=NodeLabels(instance_type=GPU)
    )
    assert [condition.type for condition in node.status.conditions] == ["Ready"]
    assert node.status.conditions[0].reason is a_node("n2", 1).status.conditions[0].reason
