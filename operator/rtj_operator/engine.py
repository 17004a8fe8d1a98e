"""Everything of one process put together: caches that are always warm, and work while it leads."""

import asyncio
import logging
import random
from typing import Final

from prometheus_client import REGISTRY

from rtj_api import auth
from rtj_operator import health, metrics
from rtj_operator.events import EventRecorder
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.informer import Reflector
from rtj_operator.kube.lease import Leadership, Term
from rtj_operator.kube.objects import NODES
from rtj_operator.remedy.sweep import Sweeper
from rtj_operator.scope import Scope
from rtj_operator.settings import Settings
from rtj_operator.shell import ProbeServer, Process
from rtj_operator.work.act import Actor
from rtj_operator.work.caches import Caches
from rtj_operator.work.children import ChildKeeper
from rtj_operator.work.confirm import Confirmer
from rtj_operator.work.observe import Observer
from rtj_operator.work.queue import JobKey, WorkQueue
from rtj_operator.work.reconcile import Reconciler
from rtj_operator.work.storage import ClaimReader
from rtj_operator.work.views import Views

log = logging.getLogger(__name__)

# Every job is looked at this often even if nothing is heard of it.
RESYNC_SECONDS: Final = 300.0
# Ten thousand nodes are 100 MB of JSON, and their watch is proven by its bookmarks.
NODE_LIST_SECONDS: Final = 6 * 3600.0
TERM_PAUSE_SECONDS: Final = 1.0


class Engine:
    """One process. `run` until cancelled; it leads when it holds the lease."""

    def __init__(
        self,
        settings: Settings,
        master_key: bytes,
        client: KubeClient,
        leadership: Leadership,
        process: Process,
    ) -> None:
        self._settings = settings
        self._client = client
        self._leadership = leadership
        self._queue = WorkQueue()
        self._queue.close()
        self._caches = Caches(self._queue.add, self._job_gone)
        self._nodes = Reflector(client, NODES, self._caches.nodes, relist_seconds=NODE_LIST_SECONDS)
        self._scopes = [
            Scope(client, self._caches, process, namespace)
            for namespace in settings.namespaces or ("",)
        ]
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
            self._leads,
        )
        self._sweeper = Sweeper(
            client, self._caches.jobs, self._caches.nodes, knows_all=self._knows_all
        )
        sources = [self._nodes, *(source for scope in self._scopes for source in scope.sources)]
        self._health = health.Health(client, sources, self._queue, leadership)
        self._probes = ProbeServer(process, settings.probe_endpoint, self._health.alive)
        REGISTRY.register(
            metrics.JobCollector(
                lambda: self._caches.jobs,
                self._views.refused_hellos,
                lambda: self._caches.node_counts.of(()).not_ready,
            )
        )

    async def run(self) -> None:
        """Watch, serve probes, and lead whenever the lease is held."""
        settings = self._settings
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="watch of nodes")
            for scope in self._scopes:
                group.create_task(scope.watch(), name="scope")
            group.create_task(self._probes.run(), name="probes")
            group.create_task(health.watch_loop(), name="loop lag")
            group.create_task(
                health.serve(self._health, settings.bind_host, settings.metrics_port),
                name="readiness and metrics",
            )
            group.create_task(self._lead(), name="leadership")

    async def _lead(self) -> None:
        try:
            while True:
                await self._one_term(await self._leadership.begun())
        finally:
            # As soon as nothing is written any more, whatever else takes its time to end.
            await self._leadership.release(self._client)

    async def _one_term(self, term: Term) -> None:
        work = asyncio.create_task(self._work(term), name=f"term {term.epoch}")
        over = asyncio.create_task(self._leadership.over(term))
        try:
            await asyncio.wait((work, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            work.cancel()
            (ended,) = await asyncio.gather(work, return_exceptions=True)
            self._queue.close()
            await self._views.close()
        if isinstance(ended, Exception):
            # The next term begins with fresh lists; leaving the process would help nobody.
            log.error("term %d broke off, beginning again", term.epoch, exc_info=ended)
            await asyncio.sleep(TERM_PAUSE_SECONDS)

    async def _work(self, term: Term) -> None:
        """Lead, each scope as soon as it was listed under the lease. The nodes need no such list:
        a former leader's taints are looked at live before any is written."""
        await self._nodes.listing.until(lambda: self._nodes.synced)
        self._queue.open()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reconciler.run(term))
            for scope in self._scopes:
                group.create_task(scope.lead(self._queue))
            group.create_task(self._resync())
            group.create_task(self._sweeper.run())

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            for scope in self._scopes:
                for key in scope.job_keys():
                    self._queue.add_after(key, random.uniform(0, RESYNC_SECONDS / 10))

    def _job_gone(self, uid: str) -> None:
        self._sweeper.gone(uid)

    def _leads(self, key: JobKey) -> bool:
        return any(scope.led for scope in self._scopes if scope.holds(key))

    def _knows_all(self) -> bool:
        """Whether a job that is not in the cache does not exist anywhere."""
        return not self._settings.namespaces and all(scope.led for scope in self._scopes)
