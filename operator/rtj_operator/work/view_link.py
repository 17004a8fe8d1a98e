"""The operator's link to one coordinator: views in, and the newest directive out.

Connected means that a view came on the present connection, and lately: what an earlier one told may
be long over, and what is not understood tells nothing.

A directive is sent when its content differs from the last one sent on this connection, so that a
repeated decision costs nothing and a reconnect repeats it once. Epoch and number are set here.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

from rtj_api import names
from rtj_api.capabilities import STANDBY
from rtj_api.messages import MAX_FRAME_VIEW_BYTES, JobDirective, JobView, ViewSocketFrame
from rtj_operator import metrics
from rtj_operator.bucket import Bucket
from rtj_operator.work.view_socket import ViewError, ViewRefused, ViewSocket

log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 2.0
HANDSHAKE_SECONDS: Final = 5.0
# A view comes at least every five seconds.
SILENCE_SECONDS: Final = 12.0
# A coordinator that has sent nothing for so long is asked for a sign of life, and has half as long
# to answer: it may be the one on which a job's training depends.
HEARTBEAT_SECONDS: Final = 2.0
BACKOFF_FIRST_SECONDS: Final = 0.1
BACKOFF_MAX_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 2.0
# Pause after each frame: a coordinator sends five a second, and a tenant's own program that sends
# more must not occupy the operator.
GAP_SECONDS: Final = 0.05
# News of steps alone may wait this long where a decision waits for a step, so that such a job costs
# one pass a second at most; and this long where none does: progress is written once a minute.
PROGRESS_SECONDS: Final = 1.0
IDLE_PROGRESS_SECONDS: Final = 60.0
# What else is news is looked at at once, so often in a row and then once a second: each look may
# be a write, and a tenant's coordinator could have news in every view.
WAKE_BURST: Final = 10
WAKE_REFILL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """One incarnation of a job's coordinator; `address` is empty until its pod has one."""

    job_uid: str
    incarnation: int
    pod_uid: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """What is known of a coordinator."""

    # The newest view, maybe of an earlier connection.
    view: JobView | None = None
    # Views come, and this one is of the present connection.
    connected: bool = False
    # Since that was last so.
    lost_seconds: float = 0.0
    # What the coordinator announced; nothing while not connected.
    capabilities: tuple[str, ...] = ()


class ViewLink:
    """Connects for ever to one coordinator pod on behalf of one leader's term.

    `wake(seconds)` is called when the job should be looked at within that time; `numbers` grow over
    all connections of the term.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        epoch: int,
        key: bytes,
        wake: Callable[[float], None],
        numbers: Iterator[int],
        view: JobView | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.epoch = epoch
        # Within what time news of steps alone should be looked at.
        self.progress_seconds = PROGRESS_SECONDS
        self._key = key
        self._wake = wake
        self._wakes = Bucket(WAKE_BURST, WAKE_REFILL_SECONDS)
        self._numbers = numbers
        self._view = view
        self._connected = False
        self._lost_at = time.monotonic()
        self._capabilities: tuple[str, ...] = ()
        self._wanted: JobDirective | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._complained = False
        self._url = (
            f"ws://{_host(coordinator.address)}:{names.PORT_VIEW_SOCKET}{names.VIEW_SOCKET_PATH}"
        )

    @property
    def state(self) -> ViewState:
        """A snapshot."""
        lost = 0.0 if self._connected else time.monotonic() - self._lost_at
        return ViewState(
            view=self._view,
            connected=self._connected,
            lost_seconds=lost,
            capabilities=self._capabilities if self._connected else (),
        )

    def start(self, session: aiohttp.ClientSession) -> None:
        """Begin to connect."""
        self._task = asyncio.create_task(self._run(session), name=f"view {self._url}")

    def stop(self) -> None:
        """Close the connection, without waiting for it."""
        if self._task is not None:
            self._task.cancel()

    def direct(self, directive: JobDirective) -> None:
        """The directive that the coordinator should have."""
        self._wanted = directive
        self._news.set()

    async def _run(self, session: aiohttp.ClientSession) -> None:
        backoff = BACKOFF_FIRST_SECONDS
        while True:
            pause = 0.0
            try:
                await self._serve(session)
            except ViewRefused as refusal:
                pause = REFUSED_SECONDS
                metrics.VIEW_REFUSED.labels(refusal.label).inc()
                self._complain(f"refused: {refusal}")
            except (ViewError, aiohttp.ClientError, OSError, TimeoutError) as error:
                log.debug("%s: %s", self._url, str(error) or type(error).__name__)
            except Exception:
                # A fault of ours, perhaps met by what this coordinator says: the next connection
                # may go well, and without one the job has no view.
                pause = REFUSED_SECONDS
                log.exception("%s: trying again", self._url)
            if self._connected:
                backoff = BACKOFF_FIRST_SECONDS
                self._set_connected(False)
            await asyncio.sleep((pause or backoff) * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, BACKOFF_MAX_SECONDS)

    async def _serve(self, session: aiohttp.ClientSession) -> None:
        """One connection, from handshake to its end; always raises."""
        async with asyncio.timeout(CONNECT_SECONDS):
            opened = await session.ws_connect(
                self._url,
                max_msg_size=MAX_FRAME_VIEW_BYTES,
                compress=0,
                heartbeat=HEARTBEAT_SECONDS,
            )
        async with opened:
            socket = ViewSocket(opened, self._complain, self._tell)
            who = self.coordinator
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await socket.shake_hands(self._key, who.job_uid, who.incarnation, self.epoch)
            self._capabilities = socket.capabilities
            sending = asyncio.create_task(self._send_directives(socket))
            try:
                await self._receive_views(socket)
            finally:
                sending.cancel()

    async def _receive_views(self, socket: ViewSocket) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(SILENCE_SECONDS) as silence:
            while True:
                view = self._view_of(await socket.receive())
                if view is not None:
                    self._accept(view)
                    silence.reschedule(loop.time() + SILENCE_SECONDS)
                await asyncio.sleep(GAP_SECONDS)

    async def _send_directives(self, socket: ViewSocket) -> None:
        sent: JobDirective | None = None
        try:
            while True:
                self._news.clear()
                if self._wanted is not None and self._wanted != sent:
                    sent = self._wanted
                    if not sent.active and STANDBY not in socket.capabilities:
                        # It would take the directive for an order to train.
                        self._complain("is of a version that cannot stand by")
                        await self._news.wait()
                        continue
                    await socket.send(
                        msgspec.structs.replace(sent, epoch=self.epoch, number=next(self._numbers))
                    )
                await self._news.wait()
        except (aiohttp.ClientError, OSError, TimeoutError):
            # The receiving side then ends too, and the link connects anew.
            await socket.close()

    def _view_of(self, frame: ViewSocketFrame | None) -> JobView | None:
        """The frame, if it is a view of this coordinator."""
        if not isinstance(frame, JobView):
            return None
        if frame.coordinator_incarnation != self.coordinator.incarnation:
            self._complain(f"view of incarnation {frame.coordinator_incarnation} ignored")
            return None
        return frame

    def _accept(self, view: JobView) -> None:
        old, self._view = self._view, view
        if not self._connected:
            self._set_connected(True)
            return
        seconds = urgency(old, view, self.progress_seconds)
        if seconds is not None:
            self._news_within(seconds)

    def _set_connected(self, connected: bool) -> None:
        self._connected = connected
        self._lost_at = time.monotonic()
        self._news_within(0.0)

    def _news_within(self, seconds: float) -> None:
        """Have the job looked at within that time, or as soon as it may be again."""
        self._wake(seconds or self._wakes.wait_seconds())

    def _tell(self, message: str) -> None:
        log.info("coordinator %s: %s", self._url, message)

    def _complain(self, message: str) -> None:
        """Log once for this coordinator; a liar must not fill the log."""
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        log.log(level, "coordinator %s: %s", self._url, message)


def urgency(
    old: JobView | None, new: JobView, progress_seconds: float = PROGRESS_SECONDS
) -> float | None:
    """Seconds within which a view that follows `old` should be looked at; None: nothing new. What
    is new by its steps alone may wait for `progress_seconds`."""
    if old is None or _without_progress(old) != _without_progress(new):
        return 0.0
    before, after = (old.step, old.highest_step), (new.step, new.highest_step)
    if before == after and old.checkpoint_step == new.checkpoint_step:
        return None
    begins_or_ends = (min(before) < 0) != (min(after) < 0)
    return 0.0 if begins_or_ends else progress_seconds


def _without_progress(view: JobView) -> JobView:
    """The view without what changes at every step or second, or as often as a stranger likes."""
    workers = tuple(
        msgspec.structs.replace(worker, step=-1, silent_seconds=0.0) for worker in view.workers
    )
    return msgspec.structs.replace(
        view,
        workers=workers,
        step=-1,
        highest_step=-1,
        checkpoint_step=-1,
        refused_hellos=0,
        step_age_seconds=-1.0,
    )


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
