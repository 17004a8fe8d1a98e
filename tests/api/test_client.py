"""The client's fence and the taints, on a real API server, without an operator process."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from rtj_api import crd, names
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.errors import AlreadyExists, Conflict, NotFound, NotLeader, Refused
from rtj_operator.kube.objects import JOBS, NODES, PODS, SERVICES
from rtj_operator.remedy import taints
from tests.api.support.api import Api, ApiFailure, Json
from tests.api.support.jobs import core, job, jobs
from tests.api.support.kubelet import Kubelet

FOREIGN: Json = {"key": "other/owner", "value": "x", "effect": "NoSchedule"}


class Lease:
    """How long the test says that the lease is still held."""

    left = 60.0


@pytest.fixture
def lease() -> Lease:
    return Lease()


@pytest.fixture
async def client(as_admin: None, lease: Lease) -> AsyncGenerator[KubeClient]:
    async with KubeClient(Credentials(), lambda: lease.left) as client:
        yield client


def a_service(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}


async def test_nothing_is_written_without_the_lease(
    api: Api, namespace: str, client: KubeClient, lease: Lease
) -> None:
    made = await client.create(SERVICES, namespace, a_service("made"))
    lease.left = 0.1
    with pytest.raises(NotLeader):
        await client.create(SERVICES, namespace, a_service("late"))
    with pytest.raises(NotLeader):
        await client.delete(SERVICES, namespace, "made", uid=made.metadata.uid)
    assert await api.find(core(namespace, "services", "late")) is None
    assert await api.find(core(namespace, "services", "made"))


def filled(schema: Json, per_list: int) -> Any:
    """A value of that schema in which each field is set, each map and list with so many entries."""
    if "additionalProperties" in schema:
        value = filled(schema["additionalProperties"], per_list)
        return {f"k{i}": value for i in range(per_list)}
    if "items" in schema:
        # No two entries of a list that is merged by a key have the same.
        once = schema.get("x-kubernetes-list-type") == "map"
        return [filled(schema["items"], per_list)] * (min(1, per_list) if once else per_list)
    if "properties" in schema:
        return {name: filled(child, per_list) for name, child in schema["properties"].items()}
    if "enum" in schema:
        return schema["enum"][0]
    by_format = {"date-time": "2027-01-15T08:00:00Z"}
    return {"integer": 1, "number": 1.5, "boolean": True}.get(
        schema["type"], by_format.get(schema.get("format", ""), "x")
    )


async def test_every_map_and_list_of_a_status_can_be_emptied(
    api: Api, namespace: str, client: KubeClient
) -> None:
    schema = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    made = await api.create(jobs(namespace), job(namespace, "a", suspend=True))
    version = made["metadata"]["resourceVersion"]
    for entries in (2, 1, 0, 2):
        status = filled(schema["properties"]["status"], entries)
        written = await client.apply_status(JOBS, namespace, "a", version=version, status=status)
        version = written.metadata.resource_version
        stored = (await api.get(jobs(namespace, "a")))["status"]
        # An empty list that is merged by a key is left out, and so read as empty.
        assert {"conditions": []} | stored == status


async def test_delete_takes_only_the_named_uid(namespace: str, client: KubeClient) -> None:
    made = await client.create(SERVICES, namespace, a_service("a"))
    with pytest.raises(Conflict):
        await client.delete(SERVICES, namespace, "a", uid="another")
    await client.delete(SERVICES, namespace, "a", uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.delete(SERVICES, namespace, "a", uid=made.metadata.uid)


async def test_create_tells_a_taken_name_and_an_unknown_field(
    namespace: str, client: KubeClient
) -> None:
    await client.create(SERVICES, namespace, a_service("a"))
    with pytest.raises(AlreadyExists):
        await client.create(SERVICES, namespace, a_service("a"))
    pod: Json = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "imagePullPolice": "Never"}]},
    }
    with pytest.raises(Refused, match="imagePullPolice"):
        await client.create(PODS, namespace, pod)


async def test_status_of_an_old_view_is_refused_and_a_foreign_manager_overruled(
    api: Api, namespace: str, client: KubeClient
) -> None:
    made = await api.create(jobs(namespace), job(namespace, "a"))
    version = made["metadata"]["resourceVersion"]
    edited = {"status": {"phase": "Failed"}}
    newer = await api.patch(jobs(namespace, "a", "status"), edited)

    async def apply(version: str) -> None:
        await client.apply_status(
            JOBS, namespace, "a", version=version, status={"phase": "Pending"}
        )

    with pytest.raises(Conflict):
        await apply(version)
    await apply(newer["metadata"]["resourceVersion"])
    assert (await api.get(jobs(namespace, "a")))["status"]["phase"] == "Pending"


async def test_taint_leaves_other_owners_taints_alone(
    api: Api, namespace: str, kubelet: Kubelet, client: KubeClient
) -> None:
    name = f"{namespace}-n"
    uid = (await kubelet.node(name))["metadata"]["uid"]
    assert await taints.taint(client, name, uid, "job-1")
    await add_taint(api, name, FOREIGN)
    assert await taints.taint(client, name, uid, "job-1")
    node = await client.get(NODES, "", name)
    assert taints.jobs_tainting(node) == ("job-1",)
    assert await taints.release(client, name, uid, "job-2")
    assert taints.jobs_tainting(await client.get(NODES, "", name)) == ("job-1",)
    assert await taints.release(client, name, uid, "job-1")
    left = (await api.get(f"/api/v1/nodes/{name}"))["spec"]["taints"]
    assert [taint["key"] for taint in left if taint["key"] != NOT_READY] == [FOREIGN["key"]]


async def test_taint_of_a_machine_that_came_back_under_the_old_name_is_not_written(
    api: Api, namespace: str, kubelet: Kubelet, client: KubeClient
) -> None:
    name = f"{namespace}-n"
    await kubelet.node(name)
    assert await taints.taint(client, name, "uid-of-the-former", "job-1") is None
    node = await api.get(f"/api/v1/nodes/{name}")
    keys = [taint["key"] for taint in node["spec"].get("taints", [])]
    assert names.TAINT_FAULTY not in keys


async def test_taint_of_another_machine_is_not_written(
    api: Api, namespace: str, kubelet: Kubelet, client: KubeClient
) -> None:
    name = f"{namespace}-n"
    node = await kubelet.node(name)
    uid, machine = node["metadata"]["uid"], node["spec"]["providerID"]
    assert await taints.taint(client, name, uid, "job-1", "aws:///b/another") is None
    assert taints.jobs_tainting(await client.get(NODES, "", name)) == ()
    assert await taints.taint(client, name, uid, "job-1", machine)
    assert taints.jobs_tainting(await client.get(NODES, "", name)) == ("job-1",)


async def test_taints_written_by_many_at_once_all_stay(
    api: Api, namespace: str, kubelet: Kubelet, client: KubeClient
) -> None:
    name = f"{namespace}-n"
    uid = (await kubelet.node(name))["metadata"]["uid"]
    others = [{**FOREIGN, "key": f"other/owner-{number}"} for number in range(4)]
    await asyncio.gather(
        taints.taint(client, name, uid, "job-1"), *(add_taint(api, name, o) for o in others)
    )
    left = (await api.get(f"/api/v1/nodes/{name}"))["spec"]["taints"]
    want = {names.TAINT_FAULTY, *(other["key"] for other in others)}
    assert {taint["key"] for taint in left} - {NOT_READY} == want


NOT_READY = "node.kubernetes.io/not-ready"


async def add_taint(api: Api, node: str, taint: Json) -> None:
    """As another controller would: read, add, write under the resourceVersion."""
    path = f"/api/v1/nodes/{node}"
    while True:
        found = await api.get(path)
        found["spec"].setdefault("taints", []).append(taint)
        try:
            await api.request("PUT", path, found)
        except ApiFailure as failure:
            if failure.code != 409:
                raise
        else:
            return
