"""What an applied job becomes: each child once, and nobody else's object touched."""

from tests.api.support.api import Api, until
from tests.api.support.jobs import core, job, jobs, policies
from tests.api.support.process import OperatorProcess


async def pod_names(api: Api, namespace: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in await api.items(core(namespace, "pods"))}


async def test_applied_job_gets_each_child_once(
    api: Api, namespace: str, operator: OperatorProcess
) -> None:
    made = await api.create(jobs(namespace), job(namespace, "a", spares=1))
    want = {"a-coordinator-0", "a-worker-0-0", "a-worker-1-0", "a-worker-2-0"}

    async def complete() -> bool:
        return await pod_names(api, namespace) == want

    await until("coordinator, two workers, one spare", complete)
    for path in (
        core(namespace, "services", "a-coordinator"),
        core(namespace, "services", "a-workers"),
        policies(namespace, "a-ingress"),
    ):
        child = await api.get(path)
        assert child["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert operator.returncode is None
