"""Events on jobs: told after the status write, counted up when repeated, never in the way.

An Event that cannot be written is dropped with a log line: status has the truth. kopf's own Events
are off, since they never aggregate.
"""

import logging
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rtj_api import names
from rtj_operator.bucket import Bucket
from rtj_operator.kube.client import KubeClient, PatchOperation
from rtj_operator.kube.errors import ApiError, NotFound, NotLeader, Unreachable
from rtj_operator.kube.objects import EVENTS
from rtj_operator.policy.decision import EmitEvent
from rtj_operator.render.objects import JobRef

log = logging.getLogger(__name__)

REMEMBERED: Final = 2048
# The API server drops Events after an hour; a repeat later is a new one.
AGGREGATE_SECONDS: Final = 3000.0
# Per job: so many at once, then one each REFILL_SECONDS.
BURST: Final = 25
REFILL_SECONDS: Final = 10.0
MESSAGE_MAX: Final = 1024


@dataclass(slots=True)
class _Told:
    name: str
    count: int
    at: float


class EventRecorder:
    """Writes Events."""

    def __init__(self, client: KubeClient, identity: str) -> None:
        self._client = client
        self._identity = identity
        self._told: OrderedDict[tuple[str, str, str, str], _Told] = OrderedDict()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    async def emit(self, job: JobRef, event: EmitEvent) -> None:
        """Write one Event, or count up the same one. Raises NotLeader only."""
        if not self._allowed(job.uid):
            log.warning("too many Events, dropped: %s %s", event.reason, event.message)
            return
        try:
            await self._write(job, event)
        except NotLeader:
            raise
        except (ApiError, Unreachable) as error:
            log.warning("Event %s not written: %s", event.reason, error)

    async def _write(self, job: JobRef, event: EmitEvent) -> None:
        key = (job.uid, event.type, event.reason, event.message)
        told = self._told.get(key)
        if told is not None and time.monotonic() - told.at < AGGREGATE_SECONDS:
            try:
                await self._count_up(job.namespace, told)
            except NotFound:
                del self._told[key]
            else:
                return
        name = f"{job.name}.{uuid.uuid4().hex[:16]}"
        await self._client.create(EVENTS, job.namespace, self._body(name, job, event))
        self._told[key] = _Told(name=name, count=1, at=time.monotonic())
        self._told.move_to_end(key)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    async def _count_up(self, namespace: str, told: _Told) -> None:
        patch = (
            PatchOperation(op="add", path="/count", value=told.count + 1),
            PatchOperation(op="add", path="/lastTimestamp", value=_now()),
        )
        await self._client.json_patch(EVENTS, namespace, told.name, patch)
        told.count += 1

    def _body(self, name: str, job: JobRef, event: EmitEvent) -> dict[str, Any]:
        now = _now()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": job.namespace},
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
            },
            "type": event.type,
            "reason": event.reason.value,
            "message": event.message[:MESSAGE_MAX],
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": names.FIELD_MANAGER},
            "reportingComponent": f"{names.GROUP}/operator",
            "reportingInstance": self._identity[:128],
        }

    def _allowed(self, uid: str) -> bool:
        bucket = self._buckets.setdefault(uid, Bucket(BURST, REFILL_SECONDS))
        self._buckets.move_to_end(uid)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket.take()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
