"""One watched namespace, or all of them: its jobs, its pods, and whether it may be led.

Each scope stands for itself: one that the API server refuses us, because its RoleBinding went with
somebody's clean-up, is left alone until it is readable again, and the others are led meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from rtj_api import names
from rtj_operator.health import Source
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.informer import Reflector
from rtj_operator.kube.listing import Listing, Poller
from rtj_operator.kube.objects import JOBS, PODS
from rtj_operator.shell import JobStream, Process
from rtj_operator.work.caches import Caches
from rtj_operator.work.queue import JobKey, WorkQueue

# kopf's watch brings the jobs; a list finds what it loses, and that it is dead.
JOB_LIST_SECONDS: Final = 120.0


class Scope:
    """Keeps the caches current for `namespace` ("": all)."""

    def __init__(
        self, client: KubeClient, caches: Caches, process: Process, namespace: str
    ) -> None:
        self._caches = caches
        self._namespace = namespace
        self._news = asyncio.Condition()
        jobs = Listing(client, JOBS, caches.jobs, namespace=namespace, news=self._news)
        self._jobs = Poller(jobs, JOB_LIST_SECONDS)
        self._pods = Reflector(
            client,
            PODS,
            caches.pods,
            namespace=namespace,
            selector=names.LABEL_JOB,
            news=self._news,
        )
        self._stream = JobStream(process, namespace, caches.jobs, self._jobs)
        self._led = False

    @property
    def sources(self) -> Sequence[Source]:
        """For the probes."""
        return self._jobs, self._pods

    @property
    def led(self) -> bool:
        """Its jobs may be looked at: it was listed in this term and is not refused."""
        return self._led and self._readable

    def holds(self, key: JobKey) -> bool:
        """Whether a job is of this scope."""
        return self._namespace in ("", key[0])

    def job_keys(self) -> list[JobKey]:
        """Its jobs that are known."""
        keys = [(job.metadata.namespace, job.metadata.name) for job in self._caches.jobs]
        return [key for key in keys if self.holds(key)]

    async def watch(self) -> None:
        """Keep the caches current, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._jobs.run(), name=f"lists of {self._jobs.listing.name}")
            group.create_task(self._pods.run(), name=f"watch of {self._pods.listing.name}")
            group.create_task(self._stream.run(), name=f"stream of {self._jobs.listing.name}")

    async def lead(self, queue: WorkQueue) -> None:
        """Have its jobs looked at, for as long as this process leads: only after lists that were
        made under the lease, and anew after each time in which it could not be read."""
        try:
            while True:
                await asyncio.gather(self._jobs.relist(), self._pods.relist())
                await self._until(readable=True)
                self._led = True
                for key in self.job_keys():
                    queue.add(key)
                await self._until(readable=False)
                self._led = False
        finally:
            self._led = False

    @property
    def _readable(self) -> bool:
        return self._jobs.listing.readable and self._pods.listing.readable

    async def _until(self, *, readable: bool) -> None:
        await self._jobs.listing.until(lambda: self._readable == readable)
