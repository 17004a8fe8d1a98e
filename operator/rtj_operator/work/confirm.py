"""Asks the API server itself before a pod or a node counts as gone.

A watch may be half open for a minute and show an old world. What it shows at worst delays a
recovery; what it does not show would begin one. So a pod that was there and is not any more, and a
node that a pod is bound to and nobody knows, are read live once before anything is decided.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from rtj_api import names
from rtj_api.reasons import Phase
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import NotFound
from rtj_operator.kube.objects import NODES, PODS, Node, Pod
from rtj_operator.kube.store import Store
from rtj_operator.policy.observation import JobObservation
from rtj_operator.work.children import is_ours
from rtj_operator.work.memory import JobMemory
from rtj_operator.work.read import pod_observation

# A node that was confirmed gone is not asked for again for so long.
ABSENT_SECONDS: Final = 60.0
ABSENT_MAX: Final = 16_384
# Missing pods up to this many are read one by one, more of them with one list.
SINGLE_READS_MAX: Final = 8
READS_AT_ONCE: Final = 16
AT_REST: Final = frozenset({Phase.SUSPENDED, Phase.COMPLETE, Phase.FAILED})


class Confirmer:
    """Corrects the caches by live reads where they lack something that should be there."""

    def __init__(self, client: KubeClient, pods: Store[Pod], nodes: Store[Node]) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._bound = asyncio.Semaphore(READS_AT_ONCE)
        # Name of a node that was confirmed gone -> time.monotonic().
        self._absent: dict[str, float] = {}

    async def confirm(self, job: JobObservation, memory: JobMemory) -> None:
        """Read live what the caches should show of the job and do not.

        Raises KubeError without an answer: nothing is decided on a loss that nobody confirms.
        """
        if not job.status.run or job.status.phase in AT_REST or job.deleting:
            return
        await self._confirm_pods(job, memory)
        bound = {pod.spec.node_name for pod in self._ours(job) if pod.spec.node_name}
        await self._confirm_nodes(name for name in bound if self._nodes.get("", name) is None)

    def _ours(self, job: JobObservation) -> tuple[Pod, ...]:
        group = self._pods.group((job.namespace, job.name))
        return tuple(pod for pod in group if is_ours(pod.metadata, job.uid))

    async def lives(self, node: str) -> bool:
        """Whether there is a node of that name now. Raises KubeError."""
        try:
            async with self._bound:
                found = await self._client.get(NODES, "", node)
        except NotFound:
            self._absent[node] = time.monotonic()
            return False
        self._absent.pop(node, None)
        self._nodes.absorb(found)
        return True

    async def _confirm_pods(self, job: JobObservation, memory: JobMemory) -> None:
        missing = _expected(job) - {pod.metadata.name for pod in self._ours(job)}
        # Those that came back may go again, and are asked for again then.
        memory.gone &= missing
        suspicious = missing - memory.gone
        if not suspicious:
            return
        if len(suspicious) > SINGLE_READS_MAX:
            selector = f"{names.LABEL_JOB_UID}={job.uid}"
            listed = await self._client.list_all(PODS, job.namespace, selector=selector)
            for pod in listed.items:
                self._pods.absorb(pod)
        else:
            reads = (self._read_pod(job.namespace, name) for name in sorted(suspicious))
            await asyncio.gather(*reads)
        memory.gone |= suspicious

    async def _read_pod(self, namespace: str, name: str) -> None:
        try:
            pod = await self._client.get(PODS, namespace, name)
        except NotFound:
            return
        if pod_observation(pod) is not None:
            self._pods.absorb(pod)

    async def _confirm_nodes(self, unknown: Iterable[str]) -> None:
        now = time.monotonic()
        never = now - ABSENT_SECONDS
        asked = [name for name in unknown if self._absent.get(name, never) <= never]
        await asyncio.gather(*(self.lives(name) for name in asked))
        if len(self._absent) > ABSENT_MAX:
            self._absent = {name: at for name, at in self._absent.items() if at > never}


def _expected(job: JobObservation) -> set[str]:
    """Names of the pods that status says were there and count."""
    status = job.status
    awaited = {*status.awaited}
    expected = {
        names.worker_pod(job.name, slot, status.incarnations.get(str(slot), 0))
        for slot in range(status.slots)
        if slot not in awaited
    }
    coordinator = status.coordinator
    if coordinator.seen:
        expected.add(names.coordinator_pod(job.name, coordinator.incarnation))
    if coordinator.standby_seen:
        expected.add(names.coordinator_pod(job.name, coordinator.standby_incarnation))
    return expected
