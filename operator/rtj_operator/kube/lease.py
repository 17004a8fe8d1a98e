"""Leadership by a Lease of coordination.k8s.io, and how long it may still be relied on.

A leader that dies is followed within five seconds: others take the lease 4 s after they last saw it
change, and they look four times a second. The holder renews it every 0.8 s and stops 3 s after the
start of its last renewal that was answered. One that gets no answer is given up after 1 s, and
there is time for another: a lost answer does not cost the lease. With two replicas that is little
more than one PUT and four GETs a second, on connections of their own.

Only the local boot clock is used, which goes on while a machine sleeps. The times written into the
Lease are for people, and for how long nobody led.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rtj_operator import metrics
from rtj_operator.kube.client import KubeClient
from rtj_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from rtj_operator.kube.objects import LEASES, Lease

log = logging.getLogger(__name__)

DURATION_SECONDS: Final = 4
RENEW_DEADLINE_SECONDS: Final = 3.0
RENEW_SECONDS: Final = 0.8
# How often a standby looks, and the holder again after a renewal that failed.
LOOK_SECONDS: Final = 0.25
AGAIN_SECONDS: Final = 0.1
ATTEMPT_SECONDS: Final = 1.0
EXPIRY_SECONDS: Final = 0.1
RELEASE_SECONDS: Final = 3.0
# 2020-01-01, so that leaseTransitions (32 bits) lasts until 2088.
EPOCH_BEGAN: Final = 1_577_836_800


def boot_clock() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Term:
    """One time of leading. Its epoch is the Lease's leaseTransitions; `unled_seconds` is for how
    long before it nobody led, 0 when that is not known."""

    epoch: int
    unled_seconds: float


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
        # What was seen may not be what is written by now: look before writing.
        self._stale = True
        self._changed = asyncio.Condition()
        self._was_leading = False
        self._term = Term(epoch=0, unled_seconds=0.0)

    @property
    def leading(self) -> bool:
        """The lease is held and may be relied on now."""
        return self.left() > 0

    def left(self) -> float:
        """Seconds for which the lease may still be relied on; 0 or less: not leading."""
        return self._valid_until - boot_clock()

    async def begun(self) -> Term:
        """Wait until this process leads; returns the term."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._was_leading)
        return self._term

    async def over(self, term: Term) -> None:
        """Wait until that term is over."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._was_leading or self._term != term)

    async def run(self, client: KubeClient) -> None:
        """Contend for the lease, renew it while it is ours; never ends by itself."""
        watchdog = asyncio.create_task(self._watch_expiry(), name="lease expiry")
        try:
            while True:
                answered = False
                try:
                    await self._attempt(client)
                    answered = True
                except KubeError as error:
                    log.warning("lease %s/%s: %s", self._namespace, self._name, error)
                    # What was sent may have been written: look before the next try.
                    self._stale = True
                await self._announce()
                await asyncio.sleep(self._pause(answered=answered))
        finally:
            watchdog.cancel()

    async def release(self, client: KubeClient) -> None:
        """Give the lease up at once, so that the other one need not wait for it to expire."""
        if self._seen is None or not self.leading:
            return
        self._valid_until = 0.0
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                while not await self._give_up(client):
                    continue
        except (KubeError, TimeoutError) as error:
            log.warning("lease %s/%s is left to expire: %s", self._namespace, self._name, error)

    async def _give_up(self, client: KubeClient) -> bool:
        """One try to write that nobody holds the lease; False: it changed meanwhile, by a renewal
        that was cut off and yet written."""
        self._seen = await client.get_lease(self._namespace, self._name, seconds=RELEASE_SECONDS)
        if self._seen.spec.holder_identity != self._identity:
            return True
        spec = self._spec(holder="", epoch=self._term.epoch, duration=1)
        try:
            await client.put_lease(
                self._namespace, self._name, self._body(spec), seconds=RELEASE_SECONDS
            )
        except Conflict:
            return False
        log.info("released lease %s/%s", self._namespace, self._name)
        return True

    async def _attempt(self, client: KubeClient) -> None:
        """One try to create, renew or take the lease."""
        if self._stale or not self.leading:
            await self._read(client)
        if self._seen is not None and not self._may_write():
            self._valid_until = 0.0
            return
        began = boot_clock()
        now = datetime.now(UTC)
        renewing = self.leading
        term = self._term if renewing else self._next_term(now)
        spec = self._spec(
            holder=self._identity, epoch=term.epoch, duration=DURATION_SECONDS, now=now
        )
        name = self._name if self._seen else ""
        try:
            lease = await client.put_lease(
                self._namespace, name, self._body(spec), seconds=ATTEMPT_SECONDS
            )
        except (Conflict, AlreadyExists, NotFound) as error:
            log.info("lease %s/%s was taken or changed: %s", self._namespace, self._name, error)
            # By another, or by a renewal of ours whose answer got lost: the next look tells.
            self._stale = True
            return
        self._look(lease)
        self._term = term
        self._valid_until = began + RENEW_DEADLINE_SECONDS

    async def _read(self, client: KubeClient) -> None:
        try:
            lease = await client.get_lease(self._namespace, self._name, seconds=ATTEMPT_SECONDS)
        except NotFound:
            self._seen = None
        else:
            self._look(lease)
        self._stale = False

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

    def _pause(self, *, answered: bool) -> float:
        """Until the next attempt; a standby is there the moment the lease expires."""
        if self.leading:
            return AGAIN_SECONDS if self._stale else RENEW_SECONDS
        look = LOOK_SECONDS * random.uniform(0.9, 1.1)
        expires = self._expires_in()
        return min(look, expires + 0.05) if answered and expires > 0 else look

    def _next_term(self, now: datetime) -> Term:
        """The epoch is one more than every one before. A Lease that was deleted would begin at 0
        again and coordinators would refuse us: the seconds since 2020 are above what any earlier
        one reached, since terms are longer than a second."""
        if self._seen is None:
            return Term(epoch=int(time.time() - EPOCH_BEGAN), unled_seconds=0.0)
        spec = self._seen.spec
        unled = (now - spec.renew_time).total_seconds() if spec.renew_time else 0.0
        return Term(epoch=spec.lease_transitions + 1, unled_seconds=max(0.0, unled))

    def _spec(
        self, *, holder: str, epoch: int, duration: int, now: datetime | None = None
    ) -> Mapping[str, Any]:
        written = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        kept = self.leading and self._seen is not None and self._seen.spec.acquire_time
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": kept or written,
            "renewTime": written,
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
            await asyncio.sleep(EXPIRY_SECONDS)
            if self._was_leading and not self.leading:
                await self._announce()

    async def _announce(self) -> None:
        leading = self.leading
        if leading == self._was_leading:
            return
        log.info("%s leading (epoch %d)", "started" if leading else "stopped", self._term.epoch)
        metrics.LEADER.set(leading)
        async with self._changed:
            self._was_leading = leading
            self._changed.notify_all()
