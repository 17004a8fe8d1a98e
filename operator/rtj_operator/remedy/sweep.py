"""Releases our taints of jobs that are gone: a deleted job can release nothing itself, and a
finalizer would make its deletion wait for us."""

import asyncio
import logging
from typing import Final

from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import KubeError, NotLeader
from rtj_operator.kube.objects import Job, Node
from rtj_operator.kube.store import Store
from rtj_operator.remedy import taints

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 60.0


class Sweeper:
    """Looks at all nodes now and then, while this process leads."""

    def __init__(self, client: KubeClient, jobs: Store[Job], nodes: Store[Node]) -> None:
        self._client = client
        self._jobs = jobs
        self._nodes = nodes

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await self.sweep()
            await asyncio.sleep(PERIOD_SECONDS)

    async def sweep(self) -> None:
        """Release every taint whose job does not exist."""
        jobs = {job.metadata.uid for job in self._jobs}
        for node in self._nodes:
            for uid in taints.jobs_tainting(node):
                if uid not in jobs:
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
