"""Puts the core between its sockets: events in, and after each settling what changed goes out."""

import asyncio
import itertools
import logging
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Final

from rtj_api.messages import (
    MAX_FRAME_VIEW_BYTES,
    MAX_FRAME_WORKER_BYTES,
    VIEW_SOCKET,
    WORKER_SOCKET,
    Beat,
    Hello,
    JobDirective,
    JobView,
    WorkerDirective,
    encode,
)
from rtj_trainer.coordinator import memory
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.directives import directive_for
from rtj_trainer.coordinator.intent import refuse_operator, refuse_worker
from rtj_trainer.coordinator.peers import Endpoint, Identity, Peer, Refusal
from rtj_trainer.coordinator.view import job_view, without_ages
from rtj_trainer.coordinator.wake import Wake, wait

# Events within this time are settled together: with a thousand workers there is always one. Where
# settling takes long there is a longer rest after it, so that it never takes the whole core.
_SHORTEST_SECONDS: Final = 0.02
_REST_FACTOR: Final = 6.0
_TICK_SECONDS: Final = 0.1
_VIEW_FASTEST_SECONDS: Final = 0.2
_VIEW_SLOWEST_SECONDS: Final = 5.0
# A directive is repeated, as every frame is whole and the link tells that we live.
_REPEAT_SECONDS: Final = 1.0
_SAVE_SECONDS: Final = 1.0
_MAX_WORKERS: Final = 8192
_MAX_VIEWERS: Final = 64
log = logging.getLogger("rtj.coordinator")


class Conductor:
    """Owns the connections."""

    def __init__(
        self, core: Core, identity: Identity, store_host: str, happened: Wake, settled: Wake
    ) -> None:
        self._core = core
        self._incarnation = identity.incarnation
        self._store_host = store_host
        self._happened = happened
        self._settled = settled
        self._numbers = itertools.count(1)
        self._workers: dict[str, Peer] = {}
        self._sent: dict[Peer, tuple[WorkerDirective, float]] = {}
        self._viewers: set[Peer] = set()
        self._wished: tuple[object, ...] = ()
        self._shown: JobView | None = None
        self._shown_at = float("-inf")
        self.worker_endpoint = Endpoint(
            identity,
            "worker",
            WORKER_SOCKET,
            MAX_FRAME_WORKER_BYTES,
            _MAX_WORKERS,
            self._admit_worker,
            self._serve_worker,
        )
        self.view_endpoint = Endpoint(
            identity,
            "operator",
            VIEW_SOCKET,
            MAX_FRAME_VIEW_BYTES,
            _MAX_VIEWERS,
            lambda hello: refuse_operator(hello, core.intent),
            self._serve_viewer,
        )

    @property
    def refusals(self) -> Counter[str]:
        """Clients turned away at either socket, by reason."""
        return self.worker_endpoint.refusals + self.view_endpoint.refusals

    @property
    def bad_frames(self) -> Counter[str]:
        """Frames ignored at either socket, by reason."""
        return self.worker_endpoint.bad_frames + self.view_endpoint.bad_frames

    def abort(self) -> None:
        """Close all connections at once."""
        for peer in [*self._workers.values(), *self._viewers]:
            peer.abort()

    # --- connections -----------------------------------------------------------------------------

    def _admit_worker(self, hello: Hello) -> Refusal | None:
        return refuse_worker(hello, self._core.intent, self._core.table)

    async def _serve_worker(self, peer: Peer) -> None:
        uid, number = peer.hello.pod_uid, next(self._numbers)
        older = self._workers.get(uid)
        if older is not None:
            older.abort()
        self._workers[uid] = peer
        self._core.connect(peer.hello, number, time.monotonic())
        log.info("%s connected", peer.hello.pod_name)
        try:
            async with aclosing(peer.frames(WORKER_SOCKET)) as frames:
                async for frame in frames:
                    if not isinstance(frame, Beat):
                        peer.misplaced(frame)
                    elif self._workers.get(uid) is peer:
                        self._core.hear(uid, frame, time.monotonic())
                        self._happened.all()
        finally:
            log.info("%s disconnected", peer.hello.pod_name)
            self._core.disconnect(uid, number, time.monotonic())
            if self._workers.get(uid) is peer:
                del self._workers[uid]
            self._sent.pop(peer, None)
            self._happened.all()

    async def _serve_viewer(self, peer: Peer) -> None:
        self._core.intent.meet(peer.hello.epoch)
        self._viewers.add(peer)
        # A newcomer must not wait for the next change.
        self._shown_at = float("-inf")
        self._happened.all()
        log.info("operator of epoch %d connected", peer.hello.epoch)
        try:
            async with aclosing(peer.frames(VIEW_SOCKET)) as frames:
                async for frame in frames:
                    if not isinstance(frame, JobDirective):
                        peer.misplaced(frame)
                    elif self._core.direct(frame):
                        _tell(frame)
                        self._happened.all()
        finally:
            self._viewers.discard(peer)

    # --- what goes out ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Settle after events, at least ten times a second, for ever."""
        with self._happened.listener() as woken:
            while True:
                woken.clear()
                now = time.monotonic()
                self._core.settle(now)
                wished, self._wished = self._wished, _wishes(self._core)
                if self._core.store_actions or self._wished != wished:
                    self._settled.all()
                self._direct_workers(now)
                self._show(now)
                took = time.monotonic() - now
                await asyncio.sleep(max(_SHORTEST_SECONDS, _REST_FACTOR * took))
                await wait(woken, _TICK_SECONDS)

    def _direct_workers(self, now: float) -> None:
        for uid, peer in self._workers.items():
            worker = self._core.table.get(uid)
            if worker is None:
                continue
            directive = directive_for(self._core, worker, self._store_host)
            if directive is None:
                continue
            sent, sent_at = self._sent.get(peer, (None, 0.0))
            if directive != sent or now - sent_at > _REPEAT_SECONDS:
                self._sent[peer] = (directive, now)
                peer.offer(encode(directive))

    def _show(self, now: float) -> None:
        age = now - self._shown_at
        if not self._viewers or age < _VIEW_FASTEST_SECONDS:
            return
        view = job_view(self._core, self._incarnation, self.refusals.total(), now)
        compared = without_ages(view)
        if compared == self._shown and age < _VIEW_SLOWEST_SECONDS:
            return
        self._shown, self._shown_at = compared, now
        frame = encode(view)
        for viewer in self._viewers:
            viewer.offer(frame)


def _tell(directive: JobDirective) -> None:
    log.info(
        "directive %d.%d: run %d, stop %s, %d pods",
        directive.epoch,
        directive.number,
        directive.run,
        directive.stop,
        len(directive.pods),
    )


def _wishes(core: Core) -> tuple[object, ...]:
    """What other tasks wait for; a change wakes them."""
    return (
        core.intent.directive,
        core.control_request,
        core.control.running,
        core.ledger.number,
        [incident.recovered for incident in core.ledger.incidents],
        core.outcome,
    )


async def keep_memory(core: Core, folder: Path, settled: Wake) -> None:
    """Save what a restarted container must know: at once what cannot be found out again, progress
    once in a while. For ever."""
    saved, saved_at = memory.Memory(), float("-inf")
    with settled.listener() as woken:
        while True:
            woken.clear()
            current = core.memory()
            late = time.monotonic() - saved_at > _SAVE_SECONDS
            if current != saved and (late or _milestones(current) != _milestones(saved)):
                saved, saved_at = current, time.monotonic()
                await asyncio.to_thread(memory.save, folder, saved)
            await wait(woken, _SAVE_SECONDS)


def _milestones(kept: memory.Memory) -> tuple[object, ...]:
    """What is not to be lost even if this process ends now."""
    recovered = [incident.recovered for incident in kept.incidents]
    return kept.directive, kept.counts, kept.fault_number, kept.outcome, recovered
