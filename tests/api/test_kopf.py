"""kopf's watch of the jobs, in this very process: what ends it ends nothing else."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.credentials import Credentials
from rtj_operator.kube.listing import Listing, Poller
from rtj_operator.kube.objects import JOBS, Job
from rtj_operator.kube.store import Store
from rtj_operator.shell import JobStream, Process
from tests.api.support.api import Api, until
from tests.api.support.jobs import job, jobs

# No list of ours comes in a test unless kopf asks for it.
PERIOD_SECONDS = 3600.0


@dataclass
class Scene:
    """A running stream and what it filled."""

    store: Store[Job]
    task: asyncio.Task[None]
    ours: asyncio.Task[None]
    signals_taken: int = 0

    def take_signals(self) -> None:
        self.signals_taken += 1

    async def holds(self, *names: str) -> None:
        async def there() -> bool:
            return {item.metadata.name for item in self.store} == set(names)

        await until(f"the store holds {names}", there)


@pytest.fixture
async def scene(api: Api, namespace: str, as_admin: None) -> AsyncGenerator[Scene]:
    store: Store[Job] = Store(lambda _old, _new: None)
    async with KubeClient(Credentials(), lambda: 0.0) as client:
        lists = Poller(Listing(client, JOBS, store, namespace=namespace), PERIOD_SECONDS)
        listing = asyncio.create_task(lists.run())
        scene = Scene(store, listing, listing)
        process = Process(
            credentials=Credentials(), identity="test", take_signals=scene.take_signals
        )
        scene.task = asyncio.create_task(JobStream(process, namespace, store, lists).run())
        try:
            yield scene
        finally:
            for task in (scene.task, listing):
                task.cancel()
            await asyncio.gather(scene.task, listing, return_exceptions=True)


async def kopf_task(name: str) -> asyncio.Task[object]:
    """One of kopf's root tasks, once it is there."""

    async def look() -> asyncio.Task[object] | None:
        return next((task for task in asyncio.all_tasks() if task.get_name() == name), None)

    found = await until(f"kopf's {name}", look)
    assert found is not None
    return found


async def test_jobs_come_change_and_go_by_kopf_alone(
    api: Api, namespace: str, scene: Scene
) -> None:
    await kopf_task("multidimensional multitasker")
    made = await api.create(jobs(namespace), job(namespace, "a"))
    await scene.holds("a")
    (seen,) = scene.store
    assert seen.metadata.uid == made["metadata"]["uid"]
    await api.patch(jobs(namespace, "a"), {"spec": {"suspend": True}})

    async def changed() -> bool:
        (seen,) = scene.store
        return seen.spec.get("suspend") is True and seen.metadata.generation == 2

    await until("the change is seen", changed)
    await api.delete(jobs(namespace, "a"))
    await scene.holds()


async def test_kopf_that_ends_is_begun_again_and_takes_no_task_of_ours_with_it(
    api: Api, namespace: str, scene: Scene
) -> None:
    for name in ("stays", "goes"):
        await api.create(jobs(namespace), job(namespace, name))
    await scene.holds("stays", "goes")
    first = await kopf_task("multidimensional multitasker")
    first.cancel()
    await asyncio.wait([first])
    await api.delete(jobs(namespace, "goes"))
    await scene.holds("stays")
    second = await kopf_task("multidimensional multitasker")
    assert second is not first
    await api.create(jobs(namespace), job(namespace, "new"))
    await scene.holds("stays", "new")
    assert not scene.ours.done()
    assert scene.signals_taken == 2
