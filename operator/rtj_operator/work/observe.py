"""Gathers one job's Observation: caches for pods and nodes, live reads for what changes rarely,
the job view from its socket."""

import time

from rtj_api.reasons import Phase
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator.kube.lease import Term
from rtj_operator.kube.objects import Job
from rtj_operator.policy.observation import (
    ClaimObservation,
    JobObservation,
    NodeObservation,
    Observation,
    PodObservation,
    ProfileObservation,
)
from rtj_operator.render import pods as pod_builder
from rtj_operator.render import profiles
from rtj_operator.render.objects import JobRef, UnusableTemplate
from rtj_operator.work import read
from rtj_operator.work.caches import Caches
from rtj_operator.work.children import is_ours, will_go
from rtj_operator.work.confirm import Confirmer
from rtj_operator.work.memory import JobMemory, ReadSpec
from rtj_operator.work.nodes import NodeCount
from rtj_operator.work.queue import JobKey
from rtj_operator.work.storage import ClaimReader
from rtj_operator.work.view_link import Coordinator, ViewState
from rtj_operator.work.views import Views


class Observer:
    """Makes Observations."""

    def __init__(
        self, caches: Caches, claims: ClaimReader, confirmer: Confirmer, views: Views
    ) -> None:
        self._caches = caches
        self._claims = claims
        self._confirmer = confirmer
        self._views = views

    async def observe(self, job: Job, memory: JobMemory, term: Term) -> Observation:
        """The job and its surroundings as they are now.

        Raises KubeError when a live read gets no answer, read.UnreadableStatus.
        """
        seen = _job(job, memory)
        ref = JobRef(namespace=seen.namespace, name=seen.name, uid=seen.uid)
        profile = profiles.find(seen.spec.instance_type) if seen.spec else None
        await self._confirmer.confirm(seen, memory)
        claim = await self._claim(seen)
        pods = self._pods(ref)
        workers, coordinator = self._occupied(ref, memory)
        state, standby = self._view_states(seen, pods, term.epoch)
        matching = self._matching(profile)
        return Observation(
            now=time.time(),
            job=seen,
            profile=_profile(profile),
            profile_problem=_profile_problem(seen, profile),
            pods=pods,
            nodes=self._nodes(seen, pods),
            claim=claim,
            view=state.view,
            view_connected=state.connected,
            view_lost_seconds=state.lost_seconds,
            standby_view=standby.view,
            standby_connected=standby.connected,
            epoch=term.epoch,
            unled_seconds=term.unled_seconds,
            matching_nodes=matching.total,
            matching_nodes_bad=matching.not_ready,
            conflicts=memory.conflicts,
            child_problems=memory.children.problems,
            occupied=workers,
            coordinator_occupied=coordinator,
            refusal=memory.refusal,
        )

    async def _claim(self, job: JobObservation) -> ClaimObservation | None:
        if job.spec is None or job.spec.storage.checkpoints is None or job.deleting:
            return None
        if not _may_start(job.status):
            # It is not judged then, and a claim that cannot be read must not hold up recoveries.
            return None
        return await self._claims.read(job.namespace, job.spec.storage.checkpoints.claim_name)

    def _pods(self, job: JobRef) -> tuple[PodObservation, ...]:
        group = self._caches.pods.group((job.namespace, job.name))
        ours = (read.pod_observation(pod) for pod in group if is_ours(pod.metadata, job.uid))
        return tuple(pod for pod in ours if pod is not None)

    def _occupied(self, job: JobRef, memory: JobMemory) -> tuple[dict[int, int], int]:
        """Of workers' slots and of the coordinator, the highest incarnation whose pod name is held
        by a pod that is not ours and will go."""
        for pod in self._caches.pods.group((job.namespace, job.name)):
            seen = read.pod_observation(pod) if will_go(pod.metadata, job) else None
            if seen is not None:
                memory.occupy(seen.role, seen.slot, seen.incarnation)
        workers = {
            slot: number for (role, slot), number in memory.occupied.items() if role == "worker"
        }
        return workers, memory.occupied.get(("coordinator", 0), -1)

    def _nodes(
        self, job: JobObservation, pods: tuple[PodObservation, ...]
    ) -> dict[str, NodeObservation]:
        wanted = {pod.node for pod in pods if pod.node}
        wanted |= {node.name for node in job.status.nodes.excluded}
        found = {name: self._caches.nodes.get("", name) for name in sorted(wanted)}
        return {name: read.node_observation(node) for name, node in found.items() if node}

    def _matching(self, profile: profiles.Profile | None) -> NodeCount:
        """The nodes on which the job could run."""
        if profile is None:
            return NodeCount(0, 0)
        return self._caches.node_counts.of(profile.node_label_values)

    def _view_states(
        self, job: JobObservation, pods: tuple[PodObservation, ...], epoch: int
    ) -> tuple[ViewState, ViewState]:
        """What is known of the coordinator that counts, and of its standby if one is wanted."""
        status = job.status.coordinator
        wanted = [_coordinator(job.uid, status.incarnation, pods)]
        if status.standby_incarnation:
            wanted.append(_coordinator(job.uid, status.standby_incarnation, pods))
        states = self._views.steer(_key(job), wanted, epoch)
        return states[0], states[1] if len(states) > 1 else ViewState()


def _coordinator(job_uid: str, incarnation: int, pods: tuple[PodObservation, ...]) -> Coordinator:
    pod = next((p for p in pods if p.role == "coordinator" and p.incarnation == incarnation), None)
    running = pod is not None and pod.phase == "Running"
    return Coordinator(
        job_uid=job_uid,
        incarnation=incarnation,
        pod_uid=pod.uid if pod else "",
        address=pod.ip if pod and running else "",
    )


def _may_start(status: ResilientTrainingJobStatus) -> bool:
    """Whether a run may start in this pass: the first, or the one after a suspension."""
    return status.run == 0 or status.phase in (Phase.SUSPENDING, Phase.SUSPENDED)


def _key(job: JobObservation) -> JobKey:
    return job.namespace, job.name


def _job(job: Job, memory: JobMemory) -> JobObservation:
    if memory.read is None or memory.read.generation != job.metadata.generation:
        memory.read = _read_spec(job)
    return read.job_observation(job, memory.read.spec, memory.read.problem)


def _read_spec(job: Job) -> ReadSpec:
    """The spec of this generation; what would not become a pod is told before one is made."""
    spec, problem = read.read_spec(job.spec)
    if spec is not None:
        problem = _template_problem(job, spec)
    readable = None if problem else spec
    return ReadSpec(generation=job.metadata.generation, spec=readable, problem=problem)


def _template_problem(job: Job, spec: ResilientTrainingJobSpec) -> str:
    profile = profiles.find(spec.instance_type)
    if profile is None:
        return ""
    meta = job.metadata
    ref = JobRef(namespace=meta.namespace, name=meta.name, uid=meta.uid)
    try:
        pod_builder.worker_pod(ref, spec, profile, slot=0, incarnation=0)
        pod_builder.coordinator_pod(ref, spec, profile, incarnation=0)
    except UnusableTemplate as error:
        return str(error)
    return ""


def _profile_problem(job: JobObservation, profile: profiles.Profile | None) -> str:
    if job.spec is None or profile is not None:
        return ""
    return profiles.unknown_instance_type(job.spec.instance_type)


def _profile(profile: profiles.Profile | None) -> ProfileObservation | None:
    if profile is None:
        return None
    return ProfileObservation(
        name=profile.name,
        processes_per_node=profile.processes_per_node,
        device=profile.device,
        grace_seconds=float(pod_builder.DEFAULT_GRACE_SECONDS[profile.device]),
    )
