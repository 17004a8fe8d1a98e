"""Reads the run's rendezvous and does to it what the core wishes."""

import asyncio
import logging
import time
from typing import Final

from rtj_api import names
from rtj_trainer.coordinator.audit import (
    ClearEntry,
    OpenRound,
    ReleaseMaster,
    StoreAction,
    TakeLaunch,
)
from rtj_trainer.coordinator.core import Core
from rtj_trainer.coordinator.wake import Wake, wait
from rtj_trainer.nvrx.limits import LAUNCHES
from rtj_trainer.nvrx.rendezvous import Rendezvous
from rtj_trainer.nvrx.store import StoreClient, StoreError

# NVRx tells nobody of a round: its state is polled, and once more right before each action.
_POLL_SECONDS: Final = 0.25
_SHORTEST_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 0.2
_HOST: Final = "127.0.0.1"
log = logging.getLogger("rtj.coordinator")


class Steering:
    """One task; its actions never overlap."""

    def __init__(self, core: Core, store_port: int, happened: Wake, settled: Wake) -> None:
        self._core = core
        self._store_port = store_port
        self._happened = happened
        self._settled = settled

    async def run(self) -> None:
        """Work for ever, run after run."""
        with self._settled.listener() as changed:
            while True:
                changed.clear()
                if not self._core.control.running:
                    await changed.wait()
                    continue
                try:
                    await self._steer(self._core.gang.run, changed)
                except StoreError as error:
                    log.info("rendezvous store of run %d: %s", self._core.gang.run, error)
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _steer(self, run: int, changed: asyncio.Event) -> None:
        """Serve one run as long as it is the present one; raises StoreError."""
        core = self._core
        store = await StoreClient.connect(_HOST, self._store_port)
        rendezvous = Rendezvous(store, names.rendezvous_id(core.job_uid, run))
        try:
            while core.gang.run == run and core.control.running:
                changed.clear()
                started_at = time.monotonic()
                core.see_rounds(run, await rendezvous.read(), started_at)
                core.settle(time.monotonic())
                actions = [action for action in core.store_actions if action.run == run]
                for action in actions:
                    await self._do(rendezvous, action)
                self._happened.all()
                await self._pause(changed, bool(actions))
        finally:
            store.close()

    async def _pause(self, changed: asyncio.Event, acted: bool) -> None:
        """Until there may be something to do: at once if something was done just now."""
        changed.clear()
        await asyncio.sleep(_SHORTEST_SECONDS)
        if not acted and not self._core.store_actions:
            await wait(changed, _POLL_SECONDS - _SHORTEST_SECONDS)

    async def _do(self, rendezvous: Rendezvous, action: StoreAction) -> None:
        match action:
            case TakeLaunch(run, position, uid):
                launch = await rendezvous.take_launch(position)
                log.info("run %d: position %d launch %d is of %s", run, position, launch, uid)
                if launch >= LAUNCHES:
                    log.error("run %d: launches of position %d are used up", run, position)
                    return
                self._core.set_launch(run, position, uid, launch)
            case OpenRound(run, after):
                opened = await rendezvous.open_next(after)
                log.info("run %d: round %d is %s", run, after + 1, "open" if opened else "over")
            case ClearEntry(run, participant):
                cleared = await rendezvous.clear(participant)
                log.info(
                    "run %d: position %d launch %d taken out of round %d: %s",
                    run,
                    participant.position,
                    participant.launch,
                    participant.round,
                    cleared,
                )
            case ReleaseMaster(run, round=number):
                log.info("run %d: rank 0 of round %d is gone", run, number)
                await rendezvous.release_master(number)
