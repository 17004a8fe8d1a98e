"""What a job leaves outside its status: Events on it, taints that go with it."""

import pytest

from rtj_api import names
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, job, jobs
from tests.api.support.kubelet import Kubelet
from tests.api.support.waits import all_pods, pod_names


async def events(api: Api, namespace: str, reason: str) -> list[Json]:
    """Events on job a with that reason."""
    return [
        event
        for event in await api.items(core(namespace, "events"))
        if event["reason"] == reason and event["involvedObject"]["name"] == "a"
    ]


@pytest.mark.usefixtures("operator")
async def test_start_is_told_once_on_the_job(api: Api, namespace: str) -> None:
    made = await api.create(jobs(namespace), job(namespace, "a"))

    async def told() -> list[Json]:
        return await events(api, namespace, "Started")

    (event,) = await until("the Event", told)
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert (event["type"], event["count"]) == ("Normal", 1)


@pytest.mark.usefixtures("operator")
async def test_taint_goes_with_the_job_and_no_other(
    api: Api, namespace: str, kubelet: Kubelet
) -> None:
    made = await api.create(jobs(namespace), job(namespace, "a"))
    await all_pods(api, namespace, pod_names("a"))
    uid = made["metadata"]["uid"]
    ours = {"key": names.TAINT_FAULTY, "value": uid, "effect": "NoSchedule"}
    strange = {**ours, "value": "job-of-another-operator"}
    for number, taint in enumerate((ours, strange)):
        node = f"{namespace}-n{number}"
        await kubelet.node(node)
        await api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}})
    await api.delete(jobs(namespace, "a"))

    async def released() -> bool:
        node = await api.get(f"/api/v1/nodes/{namespace}-n0")
        return not node["spec"].get("taints")

    await until("the taint is gone", released)
    other = await api.get(f"/api/v1/nodes/{namespace}-n1")
    assert [taint["value"] for taint in other["spec"]["taints"]] == [strange["value"]]
