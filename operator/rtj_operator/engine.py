"""Everything of one process put together: caches that are always warm, and work while it leads."""

import asyncio
import logging
import random
from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import REGISTRY

from rtj_api import auth, names
from rtj_operator import health, metrics
from rtj_operator.events import EventRecorder
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.informer import Reflector
from rtj_operator.kube.lease import Leadership
from rtj_operator.kube.objects import JOBS, NODES, PODS, Job, Node, Pod
from rtj_operator.kube.store import Store
from rtj_operator.remedy.sweep import Sweeper
from rtj_operator.settings import Settings
from rtj_operator.shell import Shell
from rtj_operator.work.act import Actor
from rtj_operator.work.children import ChildKeeper
from rtj_operator.work.confirm import Confirmer
from rtj_operator.work.observe import Caches, Observer
from rtj_operator.work.queue import JobKey, WorkQueue
from rtj_operator.work.read import node_observation
from rtj_operator.work.reconcile import Reconciler
from rtj_operator.work.storage import ClaimReader
from rtj_operator.work.views import Views

log = logging.getLogger(__name__)

# Every job is looked at this often even if nothing is heard of it.
RESYNC_SECONDS: Final = 300.0
RELIST_TIMEOUT_SECONDS: Final = 60.0
TERM_PAUSE_SECONDS: Final = 1.0


class Engine:
    """One process. `run` until cancelled; it leads when it holds the lease."""

    def __init__(
        self, settings: Settings, master_key: bytes, client: KubeClient, leadership: Leadership
    ) -> None:
        self._settings = settings
        self._leadership = leadership
        self._queue = WorkQueue()
        self._queue.close()
        self._caches = Caches(
            jobs=Store(self._job_changed),
            pods=Store(self._pod_changed, _job_of_pod),
            nodes=Store(self._node_changed),
        )
        self._reflectors = list(self._make_reflectors(client))
        self._views = Views(master_key, self._queue.add_after)
        children = ChildKeeper(client, settings.peers, lambda uid: auth.job_key(master_key, uid))
        confirmer = Confirmer(client, self._caches.pods, self._caches.nodes)
        events = EventRecorder(client, settings.identity)
        self._reconciler = Reconciler(
            client,
            self._caches.jobs,
            Observer(self._caches, ClaimReader(client), confirmer, self._views),
            Actor(client, self._caches, children, confirmer, self._views, events),
            self._views,
            events,
            self._queue,
        )
        self._sweeper = Sweeper(
            client, self._caches.jobs, self._caches.nodes, knows_all=not settings.namespaces
        )
        self._shell = Shell(settings.namespaces, self._queue.add)
        self._health = health.Health(client, self._reflectors, self._queue, leadership)
        REGISTRY.register(
            metrics.JobCollector(lambda: self._caches.jobs, self._views.refused_hellos)
        )

    async def run(self) -> None:
        """Watch, serve probes, and lead whenever the lease is held."""
        settings = self._settings
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"watch {reflector.name}")
            group.create_task(self._shell.run(), name="kopf")
            group.create_task(health.watch_loop(), name="loop lag")
            group.create_task(
                health.serve(
                    self._health, settings.bind_host, settings.probe_port, settings.metrics_port
                ),
                name="probes",
            )
            group.create_task(self._lead(), name="leadership")

    def join(self) -> None:
        """Wait a while for what goes on after `run` was cancelled."""
        self._shell.join()

    async def _lead(self) -> None:
        while True:
            epoch = await self._leadership.begun()
            term = asyncio.create_task(self._term(epoch), name=f"term {epoch}")
            over = asyncio.create_task(self._leadership.over(epoch))
            try:
                await asyncio.wait((term, over), return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
                term.cancel()
                (ended,) = await asyncio.gather(term, return_exceptions=True)
                self._queue.close()
                await self._views.close()
            if isinstance(ended, Exception):
                # The next term begins with a fresh list; leaving the process would help nobody.
                log.error("term %d broke off, beginning again", epoch, exc_info=ended)
                await asyncio.sleep(TERM_PAUSE_SECONDS)

    async def _term(self, epoch: int) -> None:
        """Lead: only after a list that was made under the lease. What is heard during it is in the
        caches; the queue was closed until then."""
        async with asyncio.timeout(RELIST_TIMEOUT_SECONDS):
            await asyncio.gather(*(reflector.relist() for reflector in self._reflectors))
        self._queue.open()
        for key in self._job_keys():
            self._queue.add(key)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reconciler.run(epoch))
            group.create_task(self._resync())
            group.create_task(self._sweeper.run())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            for key in self._job_keys():
                self._queue.add_after(key, random.uniform(0, RESYNC_SECONDS / 10))

    def _make_reflectors(self, client: KubeClient) -> Iterable[Reflector[Any]]:
        for namespace in self._settings.namespaces or ("",):
            yield Reflector(client, JOBS, self._caches.jobs, namespace=namespace)
            yield Reflector(
                client,
                PODS,
                self._caches.pods,
                namespace=namespace,
                selector=names.LABEL_JOB,
            )
        yield Reflector(client, NODES, self._caches.nodes)

    def _job_keys(self) -> list[JobKey]:
        return [(job.metadata.namespace, job.metadata.name) for job in self._caches.jobs]

    # --- what changed -> which job ---------------------------------------------------------------

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is not None:
            self._queue.add((job.metadata.namespace, job.metadata.name))
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._sweeper.gone(old.metadata.uid)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._queue.add(_job_of_pod(pod))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A heartbeat alone is no news."""
        if old is not None and new is not None and node_observation(old) == node_observation(new):
            return
        node = new or old
        name = node.metadata.name if node else ""
        for pod in self._caches.pods:
            if pod.spec.node_name == name:
                self._queue.add(_job_of_pod(pod))


def _job_of_pod(pod: Pod) -> JobKey:
    return pod.metadata.namespace, pod.metadata.labels.get(names.LABEL_JOB, "")
