"""Leadership by a Lease of coordination.k8s.io, and how long it may still be relied on.

The times are client-go's: others take the lease 15 s after they last saw it change, the holder
stops 10 s after the start of its last renewal. Only the local boot clock is used, which goes on
while a machine sleeps; the times written into the Lease are for people.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rtj_operator import metrics
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from rtj_operator.kube.objects import LEASES, Lease

log = logging.getLogger(__name__)

DURATION_SECONDS: Final = 15
RENEW_DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
RELEASE_SECONDS: Final = 3.0
# 2020-01-01, so that leaseTransitions (32 bits) lasts until 2088.
EPOCH_BEGAN: Final = 1_577_836_800


def boot_clock() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leadership:
    """One candidate. `run` contends for ever; `left()` is the gate of every mutation."""

    def __init__(self, namespace: str, name: str, identity: str) -> None:
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._valid_until = 0.0
        # The Lease as last seen, and when its resourceVersion was first seen.
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._changed = asyncio.Condition()
        self._was_leading = False
        self.epoch = 0

    @property
    def leading(self) -> bool:
        """The lease is held and may be relied on now."""
        return self.left() > 0

    def left(self) -> float:
        """Seconds for which the lease may still be relied on; 0 or less: not leading."""
        return self._valid_until - boot_clock()

    async def begun(self) -> int:
        """Wait until this process leads; returns the term's epoch."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._was_leading)
        return self.epoch

    async def over(self, epoch: int) -> None:
        """Wait until that term is over."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._was_leading or self.epoch != epoch)

    async def run(self, client: KubeClient) -> None:
        """Contend for the lease, renew it while it is ours; never ends by itself."""
        watchdog = asyncio.create_task(self._watch_expiry(), name="lease expiry")
        try:
            while True:
                try:
                    await self._attempt(client)
                except KubeError as error:
                    log.warning("lease %s/%s: %s", self._namespace, self._name, error)
                await self._announce()
                await asyncio.sleep(self._pause())
        finally:
            watchdog.cancel()

    async def release(self, client: KubeClient) -> None:
        """Give the lease up at once, so that the other one need not wait for it to expire."""
        if self._seen is None or not self.leading:
            return
        self._valid_until = 0.0
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # A renewal that was cut off may have been written.
                self._seen = await client.get(LEASES, self._namespace, self._name)
                if self._seen.spec.holder_identity != self._identity:
                    return
                spec = self._spec(holder="", epoch=self.epoch, duration=1)
                await client.put_lease(LEASES, self._namespace, self._name, self._body(spec))
            log.info("released lease %s/%s", self._namespace, self._name)
        except (KubeError, TimeoutError) as error:
            log.warning("lease %s/%s is left to expire: %s", self._namespace, self._name, error)

    async def _attempt(self, client: KubeClient) -> None:
        """One try to create, renew or take the lease."""
        began = boot_clock()
        if self._seen is None or not self.leading:
            try:
                self._look(await client.get(LEASES, self._namespace, self._name))
            except NotFound:
                self._seen = None
        if self._seen is not None and not self._may_write():
            self._valid_until = 0.0
            return
        renewing = self.leading
        epoch = self.epoch if renewing else self._next_epoch()
        spec = self._spec(holder=self._identity, epoch=epoch, duration=DURATION_SECONDS)
        name = self._name if self._seen else ""
        try:
            lease = await client.put_lease(LEASES, self._namespace, name, self._body(spec))
        except (Conflict, AlreadyExists, NotFound) as error:
            log.info("lease %s/%s was taken or changed: %s", self._namespace, self._name, error)
            # By another, or by a renewal of ours whose answer got lost: the next look tells.
            self._seen = None
            return
        self._look(lease)
        self.epoch = epoch
        self._valid_until = began + RENEW_DEADLINE_SECONDS

    def _look(self, lease: Lease) -> None:
        changed = self._seen is None or (
            lease.metadata.resource_version != self._seen.metadata.resource_version
        )
        self._seen = lease
        if changed:
            self._seen_at = boot_clock()

    def _may_write(self) -> bool:
        assert self._seen is not None
        spec = self._seen.spec
        if spec.holder_identity in ("", self._identity):
            return True
        return self._expires_in() < 0

    def _expires_in(self) -> float:
        """Seconds until another's lease may be taken, by what was seen of it here."""
        if self._seen is None:
            return 0.0
        return self._seen_at + self._seen.spec.lease_duration_seconds - boot_clock()

    def _pause(self) -> float:
        """Until the next attempt; a standby is there the moment the lease expires."""
        retry = RETRY_SECONDS * random.uniform(0.9, 1.1)
        expires = self._expires_in()
        return retry if self.leading or expires <= 0 else min(retry, expires + 0.05)

    def _next_epoch(self) -> int:
        """One more than every term before. A Lease that was deleted would begin at 0 again and
        coordinators would refuse us: the seconds since 2020 are above what any earlier one
        reached, since terms are longer than a second."""
        if self._seen is not None:
            return self._seen.spec.lease_transitions + 1
        return int(time.time() - EPOCH_BEGAN)

    def _spec(self, *, holder: str, epoch: int, duration: int) -> Mapping[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        kept = self.leading and self._seen is not None and self._seen.spec.acquire_time
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": kept or now,
            "renewTime": now,
            "leaseTransitions": epoch,
        }

    def _body(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata = {"name": self._name, "namespace": self._namespace}
        if self._seen is not None:
            metadata["resourceVersion"] = self._seen.metadata.resource_version
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }

    async def _watch_expiry(self) -> None:
        """Announce a loss when the time is up, even while a renewal hangs."""
        while True:
            await asyncio.sleep(0.25)
            if self._was_leading and not self.leading:
                await self._announce()

    async def _announce(self) -> None:
        leading = self.leading
        if leading == self._was_leading:
            return
        log.info("%s leading (epoch %d)", "started" if leading else "stopped", self.epoch)
        metrics.LEADER.set(leading)
        async with self._changed:
            self._was_leading = leading
            self._changed.notify_all()
