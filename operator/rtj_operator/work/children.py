"""Services, Secret and NetworkPolicy of a job: they are there and as they should be.

They are few and nearly never change, so they are read by name now and then, not watched. Never
adopted: an object of that name with another controller is a conflict. The Secret is only ever
created: the operator may not read any. What is wrong with one of them holds up none of the others.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from rtj_api import names
from rtj_operator import metrics
from rtj_operator.kube.client import KubeClient, PatchOperation
from rtj_operator.kube.errors import (
    AlreadyExists,
    ApiError,
    Invalid,
    KubeError,
    NotFound,
    NotLeader,
    Refused,
)
from rtj_operator.kube.objects import (
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    Meta,
    Object,
    Resource,
    Specified,
)
from rtj_operator.render import network_policy, secret, services
from rtj_operator.render.objects import JobRef, Manifest
from rtj_operator.work.memory import JobMemory

log = logging.getLogger(__name__)

# A child deleted or changed by hand is noticed after this; when pods are made, which cannot live
# without them, at once, but not more often than after the second.
LOOK_SECONDS: Final = 120.0
LOOK_AGAIN_SECONDS: Final = 5.0
# One that cannot be read, or not be made right, is tried again after this: when the server gave no
# answer, and when it said no.
UNANSWERED_SECONDS: Final = 2.0
DENIED_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Child:
    resource: Resource[Any]
    name: str
    build: Callable[[], Manifest]
    # Fields of its spec that are put right; the others are fixed, or the server's own.
    fields: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.resource.kind}/{self.name}"


def owner_text(meta: Meta, job: JobRef) -> str:
    """Whose an object is, for a person who wonders why its name is taken."""
    owner = meta.controller
    if owner is None:
        return "nobody (no controller owns it)"
    if _of_earlier_job(meta, job):
        return "an earlier job of the same name, not collected yet"
    return f"{owner.kind} {owner.name}"


def is_ours(meta: Meta, job_uid: str) -> bool:
    """Whether this very job controls the object."""
    owner = meta.controller
    return owner is not None and owner.uid == job_uid


def will_go(meta: Meta, job: JobRef) -> bool:
    """Whether an object that is not ours goes by itself: nobody need delete or rename it."""
    return not is_ours(meta, job.uid) and (meta.deleting or _of_earlier_job(meta, job))


def _of_earlier_job(meta: Meta, job: JobRef) -> bool:
    owner = meta.controller
    return owner is not None and (owner.kind, owner.name) == (names.KIND, job.name)


class ChildKeeper:
    """Makes a job's children other than pods, and keeps them as they should be."""

    def __init__(
        self,
        client: KubeClient,
        peers: network_policy.Peers,
        job_key: Callable[[str], bytes],
    ) -> None:
        self._client = client
        self._peers = peers
        self._job_key = job_key

    async def ensure(self, job: JobRef, memory: JobMemory, incarnation: int) -> None:
        """Create what is missing and point the coordinator's Service at `incarnation`.

        Raises KubeError when that Service could not be switched. Whatever else does not succeed
        stands in `memory` and is tried again.
        """
        if not memory.children.looked_at:
            await self.look(job, memory, incarnation)
        missing = [c for c in self._children(job, incarnation) if _to_be_made(c, memory)]
        tries = [self._try_create(child, job, memory) for child in missing]
        if memory.children.service_incarnation not in (None, incarnation):
            tries.append(self._point(job, memory, incarnation))
        await _all(tries)

    def due_in(self, memory: JobMemory, *, pods_made: bool) -> float:
        """Seconds until the children should be looked at; soon when pods were made just now."""
        children, now = memory.children, time.monotonic()
        if pods_made:
            soon = max(now, children.looked_at + LOOK_AGAIN_SECONDS)
            children.look_at = min(children.look_at, soon)
        return max(0.0, min(children.look_at, children.retry_at or float("inf")) - now)

    async def look(self, job: JobRef, memory: JobMemory, incarnation: int) -> None:
        """Look at all children, create what is missing and put right what was changed.

        Raises NotLeader only: what does not succeed stands in `memory` and is tried again.
        """
        memory.children.looked_at = time.monotonic()
        memory.children.look_at = memory.children.looked_at + LOOK_SECONDS
        await _all(self._look_at(c, job, memory) for c in self._children(job, incarnation))

    def _children(self, job: JobRef, incarnation: int) -> tuple[_Child, ...]:
        return (
            _Child(
                SECRETS,
                names.key_secret(job.name, job.uid),
                lambda: secret.key_secret(job, self._job_key(job.uid)),
            ),
            _Child(
                NETWORK_POLICIES,
                names.network_policy(job.name),
                lambda: network_policy.network_policy(job, self._peers),
                ("podSelector", "policyTypes", "ingress", "egress"),
            ),
            _Child(
                SERVICES,
                names.workers_service(job.name),
                lambda: services.workers_service(job),
                ("selector", "publishNotReadyAddresses"),
            ),
            _Child(
                SERVICES,
                names.coordinator_service(job.name),
                lambda: services.coordinator_service(job, incarnation),
                ("selector", "publishNotReadyAddresses", "ports"),
            ),
        )

    async def _look_at(self, child: _Child, job: JobRef, memory: JobMemory) -> None:
        if child.resource is SECRETS:
            # It cannot be read: trying to create it finds out whether it is there.
            await self._try_create(child, job, memory)
            return
        try:
            found = await self._client.get(child.resource, job.namespace, child.name)
            self._note(child, found, job, memory)
            if is_ours(found.metadata, job.uid):
                await self._put_right(child, found, job, memory)
        except NotFound:
            memory.children.present.discard(child.id)
            await self._try_create(child, job, memory)
        except NotLeader:
            raise
        except KubeError as error:
            _failed(child, memory, error)
        else:
            memory.children.mended(child.id)

    async def _try_create(self, child: _Child, job: JobRef, memory: JobMemory) -> None:
        try:
            await self._create(child, job, memory)
        except NotLeader:
            raise
        except (Refused, Invalid) as error:
            memory.refused(child.resource.kind, child.name, error, child=child.id)
            metrics.REFUSED.labels(child.resource.kind, str(error.code)).inc()
            _failed(child, memory, error)
        except KubeError as error:
            _failed(child, memory, error)
        else:
            memory.accepted(child.id)
            memory.children.mended(child.id)

    async def _create(self, child: _Child, job: JobRef, memory: JobMemory) -> None:
        try:
            made = await self._client.create(child.resource, job.namespace, child.build())
        except AlreadyExists:
            if child.resource is SECRETS:
                memory.children.present.add(child.id)
                return
            made = await self._client.get(child.resource, job.namespace, child.name)
        self._note(child, made, job, memory)

    def _note(self, child: _Child, found: Object, job: JobRef, memory: JobMemory) -> None:
        if not is_ours(found.metadata, job.uid):
            memory.conflict(child.id, owner_text(found.metadata, job))
            return
        memory.resolved(child.id)
        memory.children.present.add(child.id)
        if child.name == names.coordinator_service(job.name) and isinstance(found, Specified):
            selector: dict[str, str] = found.spec.get("selector", {})
            text = selector.get(names.LABEL_INCARNATION, "")
            memory.children.service_incarnation = int(text) if text.isdecimal() else -1

    async def _put_right(
        self, child: _Child, found: Specified, job: JobRef, memory: JobMemory
    ) -> None:
        """Write back what somebody changed in a child of ours."""
        patch = _corrections(found.spec, child.build()["spec"], child.fields)
        if not patch:
            return
        unchanged = PatchOperation(
            op="test", path="/metadata/resourceVersion", value=found.metadata.resource_version
        )
        fields = ", ".join(operation.path for operation in patch)
        mended = await self._client.json_patch(
            child.resource, job.namespace, child.name, (unchanged, *patch)
        )
        self._note(child, mended, job, memory)
        log.warning("%s was changed by somebody, put right: %s", child.id, fields)

    async def _point(self, job: JobRef, memory: JobMemory, incarnation: int) -> None:
        """Switch the Service's selector, which fences the former coordinator within 10 ms."""
        name = names.coordinator_service(job.name)
        selector = services.coordinator_selector(job, incarnation)
        try:
            live = await self._client.get(SERVICES, job.namespace, name)
            if not is_ours(live.metadata, job.uid):
                return
            await self._client.json_patch(
                SERVICES,
                job.namespace,
                name,
                (
                    PatchOperation(op="test", path="/metadata/uid", value=live.metadata.uid),
                    PatchOperation(op="add", path="/spec/selector", value=selector),
                ),
            )
        except (NotFound, Invalid) as error:
            # The next pass begins with a look.
            memory.children.looked_at = 0.0
            raise KubeError(f"Service {name} went away while it was switched") from error
        memory.children.service_incarnation = incarnation


def _to_be_made(child: _Child, memory: JobMemory) -> bool:
    known = child.id in memory.children.present or child.id in memory.children.problems
    return not known and not memory.waits(child.id) and not memory.paused(child.id)


def _failed(child: _Child, memory: JobMemory, error: KubeError) -> None:
    denied = isinstance(error, Refused | Invalid) and error.code != HTTPStatus.TOO_MANY_REQUESTS
    words = error.message if isinstance(error, ApiError) else str(error)
    seconds = DENIED_SECONDS if denied else UNANSWERED_SECONDS
    memory.children.failed(child.id, words, seconds)
    log.warning("child not kept, trying again in %.0f s: %s", seconds, error)


def _corrections(
    live: Manifest, want: Manifest, fields: Iterable[str]
) -> tuple[PatchOperation, ...]:
    """What makes these fields of a live spec as they should be."""
    out: list[PatchOperation] = []
    for field in fields:
        if field not in want and field in live:
            out.append(PatchOperation(op="remove", path=f"/spec/{field}"))
        elif field in want and live.get(field) != want[field]:
            out.append(PatchOperation(op="add", path=f"/spec/{field}", value=want[field]))
    return tuple(out)


async def _all(tries: Iterable[Any]) -> None:
    """All of them to their end; then the first failure is raised, NotLeader before others."""
    results = await asyncio.gather(*tries, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in sorted(failures, key=lambda failure: not isinstance(failure, NotLeader)):
        raise failure
