"""What the operator knows after its watches were cut and the history they need is gone."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.informer import Reflector
from rtj_operator.kube.objects import PODS, Pod
from rtj_operator.kube.store import Store
from tests.api.conftest import OperatorFactory
from tests.api.support.api import Api, Json, until
from tests.api.support.jobs import core, job, jobs
from tests.api.support.server import ApiServer
from tests.api.support.waits import all_pods, leads, pod_names, pods


async def test_what_was_deleted_while_the_watch_was_cut_leaves_no_ghost(
    api: Api, prepared: ApiServer, namespace: str, operators: OperatorFactory
) -> None:
    operator = operators()
    await leads(operator)
    for name in ("a", "b"):
        await api.create(jobs(namespace), job(namespace, name))
    before = await all_pods(api, namespace, pod_names("a") | pod_names("b"))
    operator.signal(signal.SIGSTOP)
    await api.delete(jobs(namespace, "b"))
    for name in (*pod_names("b"), "a-worker-0-0"):
        await api.delete(core(namespace, "pods", name), grace_seconds=0)
    await asyncio.to_thread(forget_history, prepared)
    operator.signal(signal.SIGCONT)

    async def only_one_job() -> bool:
        found = operator.metrics()
        return sum(v for k, v in found.items() if k.startswith("rtj_jobs{")) == 1

    await until("the deleted job is not known any more", only_one_job, seconds=60)

    async def replaced() -> bool:
        found = await pods(api, namespace)
        return len(found) == 3 and found.keys() != before.keys() - pod_names("b")

    await until("the deleted pod has a successor of another name", replaced, seconds=60)
    assert not (await pods(api, namespace)).keys() & pod_names("b")


async def test_reflector_whose_history_is_compacted_reports_what_it_missed(
    api: Api, prepared: ApiServer, namespace: str, as_admin: None
) -> None:
    for name in ("stays", "goes"):
        await api.create(core(namespace, "pods"), pod(name))
    gone: list[str] = []

    def note(old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is None:
            gone.append(old.metadata.name)

    store = Store(note)
    async with KubeClient(Credentials(), lambda: 0.0) as client:
        reflector = Reflector(client, PODS, store, namespace=namespace, selector="test")
        async with running(reflector.run()):
            await until("the first list", lambda: said(reflector.synced))
        await api.delete(core(namespace, "pods", "goes"), grace_seconds=0)
        await asyncio.to_thread(forget_history, prepared)
        async with running(reflector.run()):
            await until("the deletion is reported", lambda: said(gone))
    assert gone == ["goes"]
    assert [item.metadata.name for item in store] == ["stays"]


async def said[T](value: T) -> T:
    return value


@asynccontextmanager
async def running(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Work beside the block; cancelled at its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(name: str) -> Json:
    container = {"name": "c", "image": "example.invalid/c:1"}
    return {"metadata": {"name": name, "labels": {"test": ""}}, "spec": {"containers": [container]}}


def forget_history(server: ApiServer) -> None:
    """Compact etcd, and restart the API server, whose watch cache begins after that."""
    server.kill_api_server()
    server.compact()
    server.start_api_server()
