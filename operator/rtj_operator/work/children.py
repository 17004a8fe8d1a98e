"""Services, Secret and NetworkPolicy of a job: are they there, and make them so.

They are few and nearly never change, so they are read by name now and then, not watched. Never
adopted: an object of that name with another controller is a conflict. The Secret is only ever
created: the operator may not read any.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rtj_api import names
from rtj_operator.kube.client import KubeClient, PatchOperation
from rtj_operator.kube.errors import AlreadyExists, Invalid, KubeError, NotFound
from rtj_operator.kube.objects import (
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    Meta,
    Object,
    Resource,
    Service,
)
from rtj_operator.render import network_policy, secret, services
from rtj_operator.render.objects import JobRef, Manifest
from rtj_operator.work.memory import Children, JobMemory

# A child deleted by hand is noticed after this.
LOOK_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Child:
    resource: Resource[Any]
    name: str
    build: Callable[[], Manifest]

    @property
    def id(self) -> str:
        return f"{self.resource.kind}/{self.name}"


def owner_text(meta: Meta, job: JobRef) -> str:
    """Whose an object is, for a person who wonders why its name is taken."""
    owner = meta.controller
    if owner is None:
        return "nobody (no controller owns it)"
    if (owner.kind, owner.name) == (names.KIND, job.name):
        return "an earlier job of the same name, not collected yet"
    return f"{owner.kind} {owner.name}"


def is_ours(meta: Meta, job_uid: str) -> bool:
    """Whether this very job controls the object."""
    owner = meta.controller
    return owner is not None and owner.uid == job_uid


class ChildKeeper:
    """Looks for and makes a job's children other than pods."""

    def __init__(
        self,
        client: KubeClient,
        peers: network_policy.Peers,
        job_key: Callable[[str], bytes],
    ) -> None:
        self._client = client
        self._peers = peers
        self._job_key = job_key

    async def look(self, job: JobRef, memory: JobMemory) -> None:
        """Bring `memory.children` up to date, unless it was a moment ago. Raises KubeError."""
        children = memory.children
        if children.looked_at and time.monotonic() - children.looked_at < LOOK_SECONDS:
            return
        known_secrets = {name for name in children.present if name.startswith(SECRETS.kind)}
        fresh = Children(present=known_secrets, looked_at=time.monotonic())
        memory.children = fresh
        readable = [child for child in self._children(job, 0) if child.resource is not SECRETS]
        await asyncio.gather(*(self._look_at(child, job, memory) for child in readable))

    async def ensure(self, job: JobRef, memory: JobMemory, incarnation: int) -> None:
        """Create what is missing and point the coordinator's Service at `incarnation`.

        Raises KubeError; a name held by somebody else becomes a conflict in `memory`.
        """
        for child in self._children(job, incarnation):
            if child.id not in memory.children.present and not memory.waits(child.id):
                await self._create(child, job, memory)
        if memory.children.service_incarnation not in (None, incarnation):
            await self._point(job, memory, incarnation)

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
            ),
            _Child(
                SERVICES, names.workers_service(job.name), lambda: services.workers_service(job)
            ),
            _Child(
                SERVICES,
                names.coordinator_service(job.name),
                lambda: services.coordinator_service(job, incarnation),
            ),
        )

    async def _create(self, child: _Child, job: JobRef, memory: JobMemory) -> None:
        try:
            made = await self._client.create(child.resource, job.namespace, child.build())
        except AlreadyExists:
            if child.resource is not SECRETS:
                await self._look_at(child, job, memory)
                return
            memory.children.present.add(child.id)
        else:
            self._note(child, made, job, memory)

    async def _look_at(self, child: _Child, job: JobRef, memory: JobMemory) -> None:
        try:
            found = await self._client.get(child.resource, job.namespace, child.name)
        except NotFound:
            return
        self._note(child, found, job, memory)

    def _note(self, child: _Child, found: Object, job: JobRef, memory: JobMemory) -> None:
        if not is_ours(found.metadata, job.uid):
            memory.conflict(child.id, owner_text(found.metadata, job))
            return
        memory.resolved(child.id)
        memory.children.present.add(child.id)
        if child.name == names.coordinator_service(job.name) and isinstance(found, Service):
            text = found.spec.selector.get(names.LABEL_INCARNATION, "")
            memory.children.service_incarnation = int(text) if text.isdecimal() else -1

    async def _point(self, job: JobRef, memory: JobMemory, incarnation: int) -> None:
        """Switch the Service's selector, which fences the former coordinator within 10 ms."""
        name = names.coordinator_service(job.name)
        selector = services.coordinator_selector(job, incarnation)
        memory.children.looked_at = 0.0
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
            raise KubeError(f"Service {name} went away while it was switched") from error
        memory.children.service_incarnation = incarnation
        memory.children.looked_at = time.monotonic()
