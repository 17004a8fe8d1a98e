"""Carries out a decision's effects, in order, after its status was written; Events come last.

Each effect is level-triggered: repeated by a new leader it finds itself done. What the server
refuses is remembered for a condition and tried again later, without using any budget.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator import metrics
from rtj_operator.events import EventRecorder
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    NotLeader,
    Refused,
)
from rtj_operator.kube.objects import JOBS, PODS, Node
from rtj_operator.policy.decision import (
    Action,
    CreatePod,
    DeleteJob,
    DeletePod,
    EmitEvent,
    EnsureChildren,
    ReleaseNode,
    SendDirective,
    TaintNode,
)
from rtj_operator.policy.observation import JobObservation
from rtj_operator.remedy import taints
from rtj_operator.render import pods as pod_builder
from rtj_operator.render import profiles
from rtj_operator.render.objects import JobRef, Manifest
from rtj_operator.work.children import ChildKeeper, is_ours, owner_text
from rtj_operator.work.memory import JobMemory
from rtj_operator.work.observe import Caches
from rtj_operator.work.views import Views

log = logging.getLogger(__name__)

# Creations and deletions of pods under way at once, over all jobs; half of the connections. A busy
# API server takes 0.1 s for one: with fewer, a job of a thousand workers waits for the operator.
WRITES_MAX: Final = 32
# What a Refusal of one of the few children besides pods is called; the server's words name it.
CHILD: Final = "Child"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """One pass over one job."""

    job: JobObservation
    memory: JobMemory

    @property
    def ref(self) -> JobRef:
        return JobRef(namespace=self.job.namespace, name=self.job.name, uid=self.job.uid)


class Actor:
    """Has the effects of decisions."""

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        children: ChildKeeper,
        views: Views,
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._caches = caches
        self._children = children
        self._views = views
        self._events = events
        self._bound = asyncio.Semaphore(WRITES_MAX)

    async def act(
        self, job: JobObservation, memory: JobMemory, actions: Sequence[Action]
    ) -> float | None:
        """Carry out `actions`; returns seconds after which refused ones should be tried again.

        Raises KubeError when the server gave no answer or an unexpected one: the pass is repeated.
        """
        scene = _Scene(job=job, memory=memory)
        events = [action for action in actions if isinstance(action, EmitEvent)]
        effects = [action for action in actions if not isinstance(action, EmitEvent)]
        failed: KubeError | None = None
        for _, group in itertools.groupby((*effects, *events), key=_batch):
            try:
                await self._some(scene, list(group))
            except NotLeader:
                raise
            except KubeError as error:
                # What one effect is refused, or not answered, must not keep the others waiting,
                # least of all the Events: the next pass decides nothing new to tell.
                log.warning("%s", error)
                failed = failed or error
        if failed is not None:
            raise failed
        retry = memory.retry_seconds
        memory.drop_unwanted()
        return retry

    async def _some(self, scene: _Scene, actions: Sequence[Action]) -> None:
        """One action, or several creations or deletions of pods at once."""
        pods = [action for action in actions if isinstance(action, CreatePod)]
        if pods:
            await self._create_pods(scene, pods)
        else:
            await _together(self._one(scene, action) for action in actions)

    async def _one(self, scene: _Scene, action: Action) -> None:
        job = scene.job
        match action:
            case EnsureChildren():
                await self._ensure_children(scene, action.coordinator_incarnation)
            case DeletePod():
                await self._delete_pod(job, action)
            case SendDirective():
                self._views.direct((job.namespace, job.name), action.directive)
            case TaintNode():
                self._absorb(
                    await taints.taint(
                        self._client, action.name, action.uid, job.uid, action.provider_id
                    )
                )
            case ReleaseNode():
                self._absorb(await taints.release(self._client, action.name, action.uid, job.uid))
            case EmitEvent():
                await self._events.emit(scene.ref, action)
            case DeleteJob():
                await self._delete_job(job, action.uid)
            case CreatePod():
                await self._create_pod(scene, action)

    # --- creating --------------------------------------------------------------------------------

    async def _ensure_children(self, scene: _Scene, incarnation: int) -> None:
        if scene.memory.paused(CHILD):
            return
        try:
            await self._children.ensure(scene.ref, scene.memory, incarnation)
        except (Refused, Invalid) as error:
            self._refused(scene, CHILD, scene.job.name, error)
        else:
            scene.memory.accepted(CHILD)

    async def _create_pods(self, scene: _Scene, actions: Sequence[CreatePod]) -> None:
        """The first alone, so that a quota's refusal is heard once and not for every slot."""
        first, *rest = actions
        if not await self._create_pod(scene, first):
            return
        await _together(self._create_pod(scene, action) for action in rest)

    async def _create_pod(self, scene: _Scene, action: CreatePod) -> bool:
        """Whether the pod is there now."""
        if scene.memory.paused(PODS.kind) or scene.job.spec is None:
            return False
        manifest = _manifest(scene.ref, scene.job.spec, action)
        name: str = manifest["metadata"]["name"]
        if scene.memory.waits(f"{PODS.kind}/{name}"):
            return False
        try:
            async with self._bound:
                pod = await self._client.create(PODS, scene.job.namespace, manifest)
        except AlreadyExists:
            return await self._is_there(scene, name)
        except (Refused, Invalid) as error:
            self._refused(scene, PODS.kind, name, error)
            return False
        self._caches.pods.absorb(pod)
        scene.memory.accepted(PODS.kind)
        scene.memory.resolved(f"{PODS.kind}/{name}")
        log.info("created pod %s", name)
        return True

    async def _is_there(self, scene: _Scene, name: str) -> bool:
        """A pod of that name exists: made by us in a pass whose end was lost, or a stranger's."""
        try:
            pod = await self._client.get(PODS, scene.job.namespace, name)
        except NotFound:
            return False
        if is_ours(pod.metadata, scene.job.uid):
            self._caches.pods.absorb(pod)
            scene.memory.resolved(f"{PODS.kind}/{name}")
            return True
        scene.memory.conflict(f"{PODS.kind}/{name}", owner_text(pod.metadata, scene.ref))
        return False

    def _refused(self, scene: _Scene, kind: str, name: str, error: ApiError) -> None:
        scene.memory.refused(kind, name, error)
        metrics.REFUSED.labels(kind, str(error.code)).inc()
        log.warning("refused: %s", error)

    # --- deleting --------------------------------------------------------------------------------

    async def _delete_pod(self, job: JobObservation, action: DeletePod) -> None:
        known = self._caches.pods.get(job.namespace, action.name)
        if known is None or known.metadata.uid != action.uid:
            return
        grace = 0 if action.force else None
        if known.metadata.deleting and not action.force:
            return
        try:
            async with self._bound:
                left = await self._client.delete(
                    PODS, job.namespace, action.name, uid=action.uid, grace_seconds=grace
                )
        except (NotFound, Conflict):
            left = None
        log.info("deleted pod %s%s", action.name, " by force" if action.force else "")
        if left is None:
            self._caches.pods.remove(known)
        else:
            self._caches.pods.absorb(left)

    async def _delete_job(self, job: JobObservation, uid: str) -> None:
        try:
            await self._client.delete(JOBS, job.namespace, job.name, uid=uid)
        except (NotFound, Conflict):
            return
        log.info("deleted the job: its time to live after the end is over")

    def _absorb(self, node: Node | None) -> None:
        if node is not None:
            self._caches.nodes.absorb(node)


def _batch(action: Action) -> object:
    """Neighbours of the same batch are carried out together: those that make or delete pods."""
    return type(action) if isinstance(action, CreatePod | DeletePod) else id(action)


async def _together(attempts: Iterable[Awaitable[object]]) -> None:
    """All of them to their end, then the first failure is raised."""
    for result in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _manifest(job: JobRef, spec: ResilientTrainingJobSpec, action: CreatePod) -> Manifest:
    profile = profiles.find(spec.instance_type)
    if profile is None:
        raise LookupError(profiles.unknown_instance_type(spec.instance_type))
    if action.role == "coordinator":
        return pod_builder.coordinator_pod(
            job,
            spec,
            profile,
            incarnation=action.incarnation,
            zone=action.zone,
            excluded_nodes=action.excluded_nodes,
        )
    return pod_builder.worker_pod(
        job,
        spec,
        profile,
        slot=action.slot,
        incarnation=action.incarnation,
        zone=action.zone,
        excluded_nodes=action.excluded_nodes,
    )
