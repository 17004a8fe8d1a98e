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
from rtj_operator.work.caches import Caches
from rtj_operator.work.children import ChildKeeper, is_ours, owner_text, will_go
from rtj_operator.work.confirm import Confirmer
from rtj_operator.work.memory import JobMemory
from rtj_operator.work.views import Views

log = logging.getLogger(__name__)

# Creations and deletions of pods under way at once, over all jobs; half of the connections. A busy
# API server takes 0.1 s for one: with fewer, a job of a thousand workers waits for the operator.
WRITES_MAX: Final = 32


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
        confirmer: Confirmer,
        views: Views,
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._caches = caches
        self._children = children
        self._confirmer = confirmer
        self._views = views
        self._events = events
        self._bound = asyncio.Semaphore(WRITES_MAX)

    async def act(
        self, job: JobObservation, memory: JobMemory, actions: Sequence[Action]
    ) -> float | None:
        """Carry out `actions`; returns seconds after which refused ones should be tried again.

        `job` has the status that reserves these actions.

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
        look = await self._keep_children(scene, actions)
        if failed is not None:
            raise failed
        retry = memory.retry_seconds
        memory.drop_unwanted()
        return min((seconds for seconds in (retry, look) if seconds is not None), default=None)

    async def _keep_children(self, scene: _Scene, actions: Sequence[Action]) -> float | None:
        """Look at the other children after all effects, which so never wait for it; returns
        seconds after which they should be looked at again."""
        wanted = next((action for action in actions if isinstance(action, EnsureChildren)), None)
        if wanted is None:
            scene.memory.children.clear_problems()
            return None
        pods_made = any(isinstance(action, CreatePod) for action in actions)
        if not self._children.due_in(scene.memory, pods_made=pods_made):
            incarnation = wanted.coordinator_incarnation
            await self._children.look(scene.ref, scene.memory, incarnation)
        return self._children.due_in(scene.memory, pods_made=False)

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
                incarnation = action.coordinator_incarnation
                await self._children.ensure(scene.ref, scene.memory, incarnation)
            case DeletePod():
                await self._delete_pod(job, action)
            case SendDirective():
                counts = job.status.coordinator
                incarnation = counts.standby_incarnation if action.standby else counts.incarnation
                self._views.direct((job.namespace, job.name), incarnation, action.directive)
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

    async def _create_pods(self, scene: _Scene, actions: Sequence[CreatePod]) -> None:
        """The first alone, so that a quota's refusal is heard once and not for every slot."""
        first, *rest = actions
        await self._create_pod(scene, first)
        if scene.memory.paused(PODS.kind):
            return
        await _together(self._create_pod(scene, action) for action in rest)

    async def _create_pod(self, scene: _Scene, action: CreatePod) -> None:
        if scene.memory.paused(PODS.kind) or scene.job.spec is None:
            return
        manifest = _manifest(scene.ref, scene.job.spec, action)
        name: str = manifest["metadata"]["name"]
        if scene.memory.waits(f"{PODS.kind}/{name}"):
            return
        try:
            async with self._bound:
                pod = await self._client.create(PODS, scene.job.namespace, manifest)
        except AlreadyExists:
            await self._meet_namesake(scene, action, name)
            return
        except (Refused, Invalid) as error:
            self._refused(scene, name, error)
            return
        self._caches.pods.absorb(pod)
        scene.memory.accepted(PODS.kind)
        scene.memory.resolved(f"{PODS.kind}/{name}")
        log.info("created pod %s", name)

    async def _meet_namesake(self, scene: _Scene, action: CreatePod, name: str) -> None:
        """A pod of that name exists: made by us in a pass whose end was lost, or somebody else's.

        One that will go may take for ever to do so, on a dead node: then the next incarnation is
        to be taken. Else its owner must be asked.
        """
        try:
            pod = await self._client.get(PODS, scene.job.namespace, name)
        except NotFound:
            scene.memory.again()
            return
        if is_ours(pod.metadata, scene.job.uid):
            self._caches.pods.absorb(pod)
            scene.memory.resolved(f"{PODS.kind}/{name}")
        elif will_go(pod.metadata, scene.ref):
            scene.memory.occupy(action.role, action.slot, action.incarnation)
            scene.memory.resolved(f"{PODS.kind}/{name}")
            scene.memory.again()
        else:
            scene.memory.conflict(f"{PODS.kind}/{name}", owner_text(pod.metadata, scene.ref))

    def _refused(self, scene: _Scene, name: str, error: ApiError) -> None:
        scene.memory.refused(PODS.kind, name, error)
        metrics.REFUSED.labels(PODS.kind, str(error.code)).inc()
        log.warning("refused: %s", error)

    # --- deleting --------------------------------------------------------------------------------

    async def _delete_pod(self, job: JobObservation, action: DeletePod) -> None:
        known = self._caches.pods.get(job.namespace, action.name)
        if known is None or known.metadata.uid != action.uid:
            return
        grace = 0 if action.force else None
        if known.metadata.deleting and not action.force:
            return
        node = known.spec.node_name
        if action.force and node and await self._confirmer.lives(node):
            # Its kubelet may still run the pod, and will confirm the pod's end.
            log.info("pod %s not deleted by force: node %s is there", action.name, node)
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
    """All of them to their end, then the first failure is raised; of a lost lease before others."""
    results = await asyncio.gather(*attempts, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in sorted(failures, key=lambda failure: not isinstance(failure, NotLeader)):
        raise failure


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
