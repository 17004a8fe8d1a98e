"""Whom this worker obeys: one coordinator, and a light link to the standby that may take over.

The coordinator obeyed is the highest incarnation that ever gave a directive. One of a lower
incarnation is never linked to again, whatever address it answers at: so a coordinator that was cut
off and comes back directs nobody. The standby directs nobody either, until the operator makes it
the one that counts; its first directive then is the fence for its predecessor. Until then it gets
every beat interval the same beats as the other, with what is heard of that one, and at shorter
intervals while that one is silent.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from rtj_api.messages import Beat, WorkerDirective
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.link import Link
from rtj_trainer.agent.metrics import AgentMetrics

_LOOK_SECONDS: Final = 0.25
# Silence of the coordinator that is told to the standby at once, again and again.
_SUSPICIOUS_SECONDS: Final = 1.25
# A longer look means that this process was paused.
_PAUSE_SECONDS: Final = 1.0
_log = logging.getLogger(__name__)


class Coordinators:
    """The links; `direct` gets the directives of the coordinator that is obeyed."""

    def __init__(
        self,
        config: AgentConfig,
        metrics: AgentMetrics,
        beat: Callable[[], Beat],
        direct: Callable[[WorkerDirective], None],
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._beat = beat
        self._direct = direct
        self._obeyed = -1
        self._main = self._make_link(config.coordinator_host, beat)
        self._standby: Link | None = None
        # (host, incarnation) of the standby that was named last.
        self._named: tuple[str, int] = ("", 0)
        self._tasks: dict[Link, asyncio.Task[None]] = {}

    # --- what the agent asks and tells ---------------------------------------------------------

    @property
    def obeyed(self) -> int:
        """Incarnation of the coordinator obeyed; -1 before the first directive."""
        return self._obeyed

    @property
    def lease_age(self) -> float:
        """Seconds since that coordinator was last known to hear and answer; inf before that."""
        return self._main.lease_age

    @property
    def absent_age(self) -> float:
        """Seconds since its host last said that nobody listens there; inf before that."""
        return self._main.absent_age

    def changed(self) -> None:
        """There is something to tell; send a beat soon."""
        self._main.changed()

    async def flush(self, seconds: float) -> bool:
        """Send a beat now; whether one went out in time."""
        return await self._main.flush(seconds)

    async def run(self) -> None:
        """Keep the links for ever."""
        self._tasks[self._main] = asyncio.create_task(self._main.run())
        try:
            while True:
                looked = time.monotonic()
                await asyncio.wait(self._tasks.values(), timeout=_LOOK_SECONDS)
                for task in [task for task in self._tasks.values() if task.done()]:
                    # Links are kept for ever: this raises what ended one.
                    task.result()
                self._look(time.monotonic() - looked)
        finally:
            for link in list(self._tasks):
                self._drop(link)

    def _look(self, took_seconds: float) -> None:
        if took_seconds > _PAUSE_SECONDS:
            self._main.forgive(took_seconds)
        if self._standby is not None and self._main.silent_seconds > _SUSPICIOUS_SECONDS:
            self._standby.changed()

    # --- links ---------------------------------------------------------------------------------

    def _make_link(self, host: str, beat: Callable[[], Beat]) -> Link:
        link = Link(
            self._config,
            self._metrics,
            beat,
            lambda directive: self._take(link, directive),
            (host,),
            lambda incarnation: self._refuse(link, incarnation),
        )
        return link

    def _refuse(self, link: Link, incarnation: int) -> str:
        """Why a coordinator of this incarnation must not be linked to; "" when it may."""
        if incarnation < self._obeyed:
            return f"incarnation {incarnation} is over, {self._obeyed} is obeyed"
        other = self._standby if link is self._main else None
        if other is not None and other.connected and other.incarnation == incarnation:
            # Two connections to one coordinator would end each other.
            return f"incarnation {incarnation} is linked to as the standby"
        return ""

    def _take(self, link: Link, directive: WorkerDirective) -> None:
        if link not in self._tasks or link.incarnation < self._obeyed:
            return
        if link.incarnation > self._obeyed:
            _log.info("incarnation %d of the coordinator is obeyed now", link.incarnation)
            self._obeyed = link.incarnation
        if link is self._standby:
            self._promote(link)
        self._direct(directive)
        self._name_standby(directive)

    def _promote(self, standby: Link) -> None:
        """The standby has taken over; its link is the one that counts."""
        old, self._main, self._standby = self._main, standby, None
        self._drop(old)
        # Its pod may be made anew one day, which only the Service tells.
        standby.also_at(self._config.coordinator_host)

    def _name_standby(self, directive: WorkerDirective) -> None:
        """Link to the standby that the directive names, and to no other."""
        if self._standby is not None:
            self._standby.interval = directive.beat_interval_seconds
        named = (directive.standby_host, directive.standby_incarnation)
        wanted = bool(directive.standby_host) and directive.standby_incarnation > self._obeyed
        if (named == self._named or not wanted) and wanted == (self._standby is not None):
            return
        if self._standby is not None:
            self._drop(self._standby)
            self._standby = None
        self._named = named
        if wanted:
            self._standby = self._make_link(directive.standby_host, self._light_beat)
            self._standby.interval = directive.beat_interval_seconds
            self._tasks[self._standby] = asyncio.create_task(self._standby.run())

    def _drop(self, link: Link) -> None:
        task = self._tasks.pop(link, None)
        if task is not None:
            task.cancel()

    def _light_beat(self) -> Beat:
        """For the standby; with its promotion the link carries plain beats."""
        beat = self._beat()
        if self._standby is None:
            return beat
        silent = self._main.silent_seconds if self._obeyed >= 0 else -1.0
        return replace(
            beat,
            obeys_incarnation=self._obeyed,
            coordinator_silent_seconds=round(min(silent, 1e9), 2),
        )
