"""Releases our taints of jobs that are gone: a deleted job can release nothing itself, and a
finalizer would make its deletion wait for us."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import KubeError, NotLeader
from rtj_operator.kube.objects import Job, Node
from rtj_operator.kube.store import Store
from rtj_operator.remedy import taints

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 60.0
# Jobs remembered as gone.
REMEMBERED: Final = 1024


class Sweeper:
    """Looks at all nodes now and then, and when a job goes, while this process leads.

    `knows_all()`: the jobs of all namespaces are known now. Else a taint for an unknown job may be
    another operator's, and only those of jobs that were seen to go are released.
    """

    def __init__(
        self,
        client: KubeClient,
        jobs: Store[Job],
        nodes: Store[Node],
        *,
        knows_all: Callable[[], bool],
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._nodes = nodes
        self._knows_all = knows_all
        self._gone: deque[str] = deque(maxlen=REMEMBERED)
        self._news = asyncio.Event()

    def gone(self, job_uid: str) -> None:
        """A job does not exist any more."""
        self._gone.append(job_uid)
        self._news.set()

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            self._news.clear()
            await self.sweep()
            try:
                async with asyncio.timeout(PERIOD_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def sweep(self) -> None:
        """Release every taint whose job does not exist."""
        jobs = {job.metadata.uid for job in self._jobs}
        gone, knows_all = set(self._gone), self._knows_all()
        for node in self._nodes:
            for uid in taints.jobs_tainting(node):
                if uid not in jobs and (knows_all or uid in gone):
                    await self._release(node, uid)

    async def _release(self, node: Node, job_uid: str) -> None:
        meta = node.metadata
        try:
            released = await taints.release(self._client, meta.name, meta.uid, job_uid)
        except NotLeader:
            return
        except KubeError as error:
            log.warning("taint on node %s not released, trying again later: %s", meta.name, error)
            return
        if released is not None:
            self._nodes.absorb(released)
        log.info("released node %s: the job that tainted it is gone", meta.name)
