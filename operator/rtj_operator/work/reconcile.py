"""The loop: take a job from the queue, observe, decide, reserve in status, act.

The status write comes first and carries the resourceVersion of what was observed: what is not
reserved does not happen, and of two operators only one can reserve. Refused as stale, the job is
read live and decided anew.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rtj_api.reasons import EventReason, Phase
from rtj_api.status import ResilientTrainingJobStatus
from rtj_operator import logs, metrics
from rtj_operator.events import EventRecorder
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import Conflict, KubeError, NotFound, NotLeader
from rtj_operator.kube.lease import Term
from rtj_operator.kube.objects import JOBS, Job
from rtj_operator.kube.store import Store
from rtj_operator.policy.decide import decide
from rtj_operator.policy.decision import Decision, EmitEvent
from rtj_operator.policy.observation import JobObservation
from rtj_operator.render.objects import JobRef
from rtj_operator.work.act import Actor
from rtj_operator.work.memory import Memories
from rtj_operator.work.observe import Observer
from rtj_operator.work.queue import JobKey, WorkQueue
from rtj_operator.work.read import UnreadableStatus
from rtj_operator.work.views import Views

log = logging.getLogger(__name__)

WORKERS: Final = 32
# A pass that takes longer is given up; it is repeated like a failed one.
PASS_SECONDS: Final = 120.0
# A status write refused as stale this often in one pass: somebody else keeps writing.
STALE_MAX: Final = 5


class Reconciler:
    """Works the queue on behalf of one leader's term."""

    def __init__(
        self,
        client: KubeClient,
        jobs: Store[Job],
        observer: Observer,
        actor: Actor,
        views: Views,
        events: EventRecorder,
        queue: WorkQueue,
        leads: Callable[[JobKey], bool],
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._observer = observer
        self._actor = actor
        self._views = views
        self._events = events
        self._queue = queue
        self._leads = leads
        self._memories = Memories()
        self._complained: dict[JobKey, str] = {}

    async def run(self, term: Term) -> None:
        """Work until cancelled."""
        self._memories = Memories()
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(term))

    async def _work(self, term: Term) -> None:
        while True:
            key = await self._queue.get()
            began = time.monotonic()
            with logs.job(key):
                result = await self._pass(key, term)
            metrics.RECONCILE.labels(result).observe(time.monotonic() - began)

    async def _pass(self, key: JobKey, term: Term) -> str:
        """One pass, whatever happens in it; returns its result's name for the metric."""
        if not self._leads(key):
            # Its namespace cannot be read now; all of its jobs are looked at when it can.
            self._queue.done(key)
            return "held"
        try:
            async with asyncio.timeout(PASS_SECONDS):
                wake_after = await self._reconcile(key, term)
        except asyncio.CancelledError:
            self._queue.interrupted(key)
            raise
        except (KubeError, TimeoutError) as error:
            # Not leading any more: this worker is about to be cancelled.
            level = logging.DEBUG if isinstance(error, NotLeader) else logging.WARNING
            delay = self._queue.failed(key)
            log.log(level, "again in %.1f s: %s", delay, str(error) or "the pass took too long")
            return "unanswered"
        except Exception:
            # A fault of ours in one job must not stop the others.
            delay = self._queue.failed(key)
            log.exception("again in %.1f s", delay)
            return "error"
        self._queue.done(key, wake_after)
        return "done"

    async def _reconcile(self, key: JobKey, term: Term) -> float | None:
        job = self._jobs.get(*key)
        for _ in range(STALE_MAX):
            if job is None:
                self._forget(key)
                return None
            memory = self._memories.of(key, job.metadata.uid)
            try:
                observation = await self._observer.observe(job, memory, term)
            except UnreadableStatus as error:
                await self._complain(key, job, str(error))
                return None
            decision = decide(observation)
            if decision.complaint:
                await self._complain(key, job, decision.complaint)
                return None
            try:
                await self._reserve(observation.job, decision)
            except (Conflict, NotFound) as error:
                log.debug("deciding anew: %s", error)
                job = await self._live(job)
                continue
            self._views.expect_steps(key, awaited=awaits_step(decision.status))
            written = replace(observation.job, status=decision.status)
            retry = await self._actor.act(written, memory, decision.actions)
            wakes = (retry, decision.wake_after_seconds)
            return min((seconds for seconds in wakes if seconds is not None), default=None)
        raise KubeError(f"status was written by somebody else {STALE_MAX} times in a row")

    async def _reserve(self, job: JobObservation, decision: Decision) -> None:
        """Write the status, if it differs. Raises Conflict when the job changed meanwhile."""
        if decision.status == job.status:
            return
        written = await self._client.apply_status(
            JOBS,
            job.namespace,
            job.name,
            version=job.resource_version,
            status=decision.status.model_dump(mode="json", by_alias=True, exclude_none=True),
        )
        self._jobs.absorb(written)
        metrics.count_decision(job, decision)

    async def _live(self, job: Job) -> Job | None:
        """The job as the server has it now; None: gone, or another one took its name."""
        meta = job.metadata
        try:
            live = await self._client.get(JOBS, meta.namespace, meta.name)
        except NotFound:
            self._jobs.remove(job)
            return None
        self._jobs.absorb(live)
        return live

    def _forget(self, key: JobKey) -> None:
        self._memories.forget(key)
        self._views.drop(key)
        self._complained.pop(key, None)

    async def _complain(self, key: JobKey, job: Job, text: str) -> None:
        """Tell once why a job is left alone: not in status, which is what cannot be read."""
        if self._complained.get(key) == text:
            return
        log.error("left alone: %s", text)
        ref = JobRef(namespace=key[0], name=key[1], uid=job.metadata.uid)
        event = EmitEvent(type="Warning", reason=EventReason.INVALID, message=text[:1024])
        await self._events.emit(ref, event)
        self._complained[key] = text


def awaits_step(status: ResilientTrainingJobStatus) -> bool:
    """Whether a decision waits for the job's next step: its first, the one that ends a recovery,
    the last before a suspension. Training that goes well is looked at once a minute."""
    steady = status.phase == Phase.RUNNING and status.first_step_time is not None
    return not steady or status.recovery is not None
