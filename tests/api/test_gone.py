"""What counts as gone is only what the API server itself says is gone.

The operator's hands work on a real API server; no watch feeds their caches, which so show what a
watch that hangs would show: the past.
"""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from rtj_operator.events import EventRecorder
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.objects import JOBS, NODES, PODS
from rtj_operator.policy.decision import CreatePod, DeletePod
from rtj_operator.policy.observation import JobObservation
from rtj_operator.render.network_policy import Peers
from rtj_operator.work.act import Actor
from rtj_operator.work.children import ChildKeeper
from rtj_operator.work.confirm import SINGLE_READS_MAX, Confirmer
from rtj_operator.work.memory import JobMemory
from rtj_operator.work.observe import Caches
from rtj_operator.work.read import job_observation, read_spec
from rtj_operator.work.views import Views
from tests.api.support.api import Api
from tests.api.support.jobs import core, job, jobs
from tests.api.support.kubelet import Kubelet


class Hands:
    """What acts and what confirms, with caches of their own that are empty at first."""

    def __init__(self, client: KubeClient, uid: str) -> None:
        caches = Caches(lambda _key: None, lambda _uid: None)
        self.pods, self.nodes = caches.pods, caches.nodes
        self.memory = JobMemory(uid=uid)
        self.confirmer = Confirmer(client, self.pods, self.nodes)
        self.actor = Actor(
            client,
            caches,
            ChildKeeper(client, Peers(), lambda _: bytes(32)),
            self.confirmer,
            Views(bytes(32), lambda _key, _seconds: None),
            EventRecorder(client, "test"),
        )

    def shown(self) -> set[str]:
        """Names of the pods that the cache shows."""
        return {pod.metadata.name for pod in self.pods}


@pytest.fixture
async def client(as_admin: None) -> AsyncGenerator[KubeClient]:
    async with KubeClient(Credentials(), lambda: 60.0) as client:
        yield client


async def trained(api: Api, client: KubeClient, namespace: str, workers: int) -> JobObservation:
    """A job in its first run, all of whose workers were seen; their pods exist."""
    await api.create(jobs(namespace), job(namespace, "a", nodes=workers))
    status = {"format": 1, "run": 1, "phase": "Running", "slots": workers}
    await api.patch(jobs(namespace, "a", "status"), {"status": status})
    live = await client.get(JOBS, namespace, "a")
    seen = job_observation(live, *read_spec(live.spec))
    makes = [CreatePod(role="worker", slot=slot, incarnation=0) for slot in range(workers)]
    hands = Hands(client, seen.uid)
    await hands.actor.act(seen, hands.memory, makes)
    assert len(hands.shown()) == workers
    return seen


@pytest.mark.parametrize("workers", [2, SINGLE_READS_MAX + 2])
async def test_pods_that_the_cache_does_not_show_are_read_live(
    api: Api, client: KubeClient, namespace: str, workers: int
) -> None:
    seen = await trained(api, client, namespace, workers)
    await api.delete(core(namespace, "pods", "a-worker-1-0"), grace_seconds=0)
    hands = Hands(client, seen.uid)
    await hands.confirmer.confirm(seen, hands.memory)
    assert hands.shown() == {f"a-worker-{slot}-0" for slot in range(workers) if slot != 1}
    assert "a-worker-1-0" in hands.memory.gone


async def test_node_that_the_cache_does_not_show_is_read_live(
    api: Api, client: KubeClient, namespace: str, kubelet: Kubelet
) -> None:
    seen = await trained(api, client, namespace, 2)
    for slot in range(2):
        await kubelet.node(f"{namespace}-n{slot}")
        await kubelet.run(f"a-worker-{slot}-0", f"{namespace}-n{slot}", "127.0.0.1")
    await api.delete(f"/api/v1/nodes/{namespace}-n1")
    hands = Hands(client, seen.uid)
    await hands.confirmer.confirm(seen, hands.memory)
    assert [node.metadata.name for node in hands.nodes] == [f"{namespace}-n0"]


async def test_nothing_is_deleted_by_force_on_a_node_that_is_there(
    api: Api, client: KubeClient, namespace: str, kubelet: Kubelet
) -> None:
    seen = await trained(api, client, namespace, 2)
    for slot in range(2):
        await kubelet.node(f"{namespace}-n{slot}")
        await kubelet.run(f"a-worker-{slot}-0", f"{namespace}-n{slot}", "127.0.0.1")
        await api.delete(core(namespace, "pods", f"a-worker-{slot}-0"))
    await api.delete(f"/api/v1/nodes/{namespace}-n1")
    hands = Hands(client, seen.uid)
    for slot in range(2):
        hands.pods.absorb(await client.get(PODS, namespace, f"a-worker-{slot}-0"))
    deletes = [
        DeletePod(name=pod.metadata.name, uid=pod.metadata.uid, force=True) for pod in hands.pods
    ]
    await hands.actor.act(seen, hands.memory, deletes)
    assert await api.find(core(namespace, "pods", "a-worker-0-0"))
    assert await api.find(core(namespace, "pods", "a-worker-1-0")) is None
    # The cache knows the node now, so that the next decision knows it too.
    assert hands.nodes.get("", f"{namespace}-n0") == await client.get(NODES, "", f"{namespace}-n0")


async def test_names_of_pods_that_will_go_are_occupied_and_those_of_strangers_in_conflict(
    api: Api, client: KubeClient, namespace: str, kubelet: Kubelet
) -> None:
    """An earlier job of the name left a pod on a dead node, where it stays for ever."""
    old = await trained(api, client, namespace, 3)
    await kubelet.node(f"{namespace}-n0")
    await kubelet.run("a-worker-0-0", f"{namespace}-n0", "127.0.0.1")
    await api.delete(core(namespace, "pods", "a-worker-0-0"))
    await api.delete(jobs(namespace, "a"))
    # Somebody else's, alive.
    await api.delete(core(namespace, "pods", "a-worker-2-0"), grace_seconds=0)
    container = {"name": "c", "image": "example.invalid/c:1"}
    stranger = {"metadata": {"name": "a-worker-2-0"}, "spec": {"containers": [container]}}
    await api.create(core(namespace, "pods"), stranger)

    await api.create(jobs(namespace), job(namespace, "a", nodes=4))
    live = await client.get(JOBS, namespace, "a")
    new = job_observation(live, *read_spec(live.spec))
    assert new.uid != old.uid
    hands = Hands(client, new.uid)
    makes = [CreatePod(role="worker", slot=slot, incarnation=0) for slot in range(4)]
    again = await hands.actor.act(new, hands.memory, makes)
    assert again is not None
    assert again < 1
    # Two of the old job, one of them being deleted; the others of the pass were made all the same.
    assert hands.memory.occupied == {("worker", 0): 0, ("worker", 1): 0}
    assert list(hands.memory.conflicts) == ["Pod/a-worker-2-0"]
    assert hands.shown() == {"a-worker-3-0"}
    await hands.actor.act(new, hands.memory, [CreatePod(role="worker", slot=0, incarnation=1)])
    assert hands.shown() == {"a-worker-0-1", "a-worker-3-0"}
    await asyncio.gather(
        *(
            api.delete(core(namespace, "pods", name), grace_seconds=0)
            for name in ("a-worker-0-0", "a-worker-1-0")
        )
    )
