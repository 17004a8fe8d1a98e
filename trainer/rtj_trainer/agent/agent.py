"""One worker's agent, put together: links, supervisor, ranks, health, metrics, and the way out."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from rtj_api import names
from rtj_api.messages import MAX_TEXT, Beat, RankBeat, TerminationMessage, WorkerDirective
from rtj_trainer.agent import processes
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.coordinators import Coordinators
from rtj_trainer.agent.exits import ExitLog
from rtj_trainer.agent.launcher_process import LauncherProcess
from rtj_trainer.agent.lease import Lease
from rtj_trainer.agent.memory import OomWatch
from rtj_trainer.agent.metrics import AgentMetrics, MetricsServer
from rtj_trainer.agent.ranks import RankTable
from rtj_trainer.agent.supervisor import Launch, Supervisor
from rtj_trainer.agent.termination import leave_word
from rtj_trainer.nvrx.health import HealthService

_LOOK_SECONDS: Final = 0.1
# A longer gap between two looks means that this process was paused.
_PAUSE_SECONDS: Final = 1.0
# How long a pod that is being stopped waits for the coordinator's word.
_ANSWER_SECONDS: Final = 2.0
# Kept back of the pod's grace for killing and for the last words.
_RESERVE_SECONDS: Final = 5.0
_FAREWELL_SECONDS: Final = 0.5
_log = logging.getLogger(__name__)


class Agent:
    """Made in a running event loop; `run` returns the exit code."""

    def __init__(self, config: AgentConfig, launcher: LauncherProcess) -> None:
        self._config = config
        self._metrics = AgentMetrics()
        self._ranks = RankTable(config.shm_dir, self._on_change)
        self._exits = ExitLog(OomWatch(), self._on_change)
        self._supervisor = Supervisor(
            config, self._ranks, self._exits, self._metrics, self._on_change
        )
        self._supervisor.adopt(launcher)
        self._link = Coordinators(config, self._metrics, self._beat, self._on_directive)
        self._lease = Lease()
        self._health = HealthService(config.health_socket, self._refusal)
        self._server = MetricsServer(self._metrics)
        self._directive: WorkerDirective | None = None
        self._terminating = asyncio.Event()
        self._told_to_exit = asyncio.Event()
        self._moved = asyncio.Event()
        self._sequence = 0
        self._last_state: object = None

    async def run(self) -> int:
        """Work until told to exit or to stop; every process below is gone then."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop, number)
        loop.add_signal_handler(signal.SIGCHLD, self._on_sigchld)
        await self._health.start()
        await self._serve_metrics()
        supervising = asyncio.create_task(self._supervisor.run())
        telling = [asyncio.create_task(work) for work in (self._link.run(), self._look())]
        ending = asyncio.create_task(self._wait_for_end())
        try:
            done, _ = await asyncio.wait(
                [supervising, *telling, ending], return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                # None but the last returns: this raises what ended the others.
                task.result()
        finally:
            await _cancel([supervising, ending])
            await self._supervisor.end()
            # Told with nothing left running, so that nobody waits for us in vain.
            await self._link.flush(_FAREWELL_SECONDS)
            await _cancel(telling)
            await self._health.stop()
            await self._server.stop()
        return self._leave_word()

    async def _serve_metrics(self) -> None:
        try:
            await self._server.start(self._config.metrics_host, self._config.metrics_port)
        except OSError as error:
            _log.error("no metrics, training goes on without them: %s", error)

    # --- what is told and asked ------------------------------------------------------------------

    def _beat(self) -> Beat:
        self._sequence += 1
        return Beat(
            seq=self._sequence,
            launcher=self._supervisor.state,
            ranks=self._ranks.beats(),
            exits=self._exits.reports,
            terminating=self._terminating.is_set(),
        )

    def _on_directive(self, directive: WorkerDirective) -> None:
        if directive.state == "keep":
            # Of a newer coordinator: what it said before still holds.
            return
        if directive != self._directive:
            _log.info(
                "directive: %s run=%d position=%d launch=%d",
                directive.state,
                directive.run,
                directive.position,
                directive.launch,
            )
        self._directive = directive
        if directive.state == "exit":
            self._told_to_exit.set()
        self._supervisor.want(directive)
        self._moved.set()

    def _on_change(self) -> None:
        self._link.changed()
        self._supervisor.look()
        self._moved.set()

    def _refusal(self) -> str:
        """Why the launcher must not join a round now; "" when it may."""
        directive = self._directive
        if directive is None or directive.state != "train":
            return "the coordinator does not want this worker to train"
        if Launch.of(directive) != self._supervisor.launch:
            return "the coordinator wants another launch of this worker"
        age = self._link.lease_age
        if age > directive.beat_timeout_seconds:
            return f"the coordinator was last heard {age:.1f} s ago"
        return ""

    async def _look(self) -> None:
        """Ten times a second: read the ranks' records, and tell when anything but ages changed."""
        looked = time.monotonic()
        while True:
            before, looked = looked, time.monotonic()
            if looked - before > _PAUSE_SECONDS:
                self._lease.forgive(looked - before)
            self._ranks.refresh()
            ranks = self._ranks.beats()
            state = tuple(replace(rank, age_seconds=0.0) for rank in ranks)
            if state != self._last_state:
                self._last_state = state
                self._on_change()
            self._keep_lease(ranks)
            self._metrics.show(ranks)
            await asyncio.sleep(_LOOK_SECONDS)

    def _keep_lease(self, ranks: Sequence[RankBeat]) -> None:
        """End the ranks of a position that may have been given away (see agent.lease)."""
        directive, launch = self._directive, self._supervisor.launch
        if directive is None:
            return
        now = time.monotonic()
        running = launch if self._supervisor.running else None
        self._lease.begin(running and (running.run, running.position, running.launch), now)
        self._lease.watch(ranks, directive.nodes, now)
        self._lease.renew(self._link.lease_age, now)
        self._lease.renew(self._link.absent_age, now)
        if directive.state != "train":
            # Positions of a job that saves and leaves are not given away.
            self._lease.renew(0.0, now)
        unproved = self._lease.lapsed_seconds(directive, now)
        if unproved is not None:
            self._supervisor.lapse(
                "ended by its agent, since its position may have been given away: the coordinator "
                f"was not heard and no step was made for {unproved:.0f} s"
            )

    # --- signals and the end -------------------------------------------------------------------

    def _on_stop(self, number: signal.Signals) -> None:
        _log.info("%s: asking the coordinator what to do", number.name)
        self._terminating.set()
        self._link.changed()

    def _on_sigchld(self) -> None:
        processes.reap(self._supervisor.managed())

    async def _wait_for_end(self) -> None:
        told = asyncio.create_task(self._told_to_exit.wait())
        stopping = asyncio.create_task(self._terminating.wait())
        await asyncio.wait([told, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            await self._stop_in_grace()
        for task in (told, stopping):
            task.cancel()

    async def _stop_in_grace(self) -> None:
        """SIGTERM came: do what the coordinator answers, but end in time whatever it answers."""
        end = time.monotonic() + max(0.0, self._config.grace_seconds - _RESERVE_SECONDS)
        if not self._supervisor.running:
            return
        await self._until(self._answered, min(end, time.monotonic() + _ANSWER_SECONDS))
        if not self._answered():
            _log.warning("no answer within %.0f s: stopping at once", _ANSWER_SECONDS)
            return
        await self._until(lambda: not self._supervisor.running, end)
        await self._until(lambda: False, min(end, time.monotonic() + _ANSWER_SECONDS))

    def _answered(self) -> bool:
        return self._directive is not None and self._directive.state == "leave"

    async def _until(self, condition: Callable[[], bool], deadline: float) -> None:
        """Until the condition holds, the worker is told to exit, or the time is over."""
        while not (condition() or self._told_to_exit.is_set()):
            self._moved.clear()
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._moved.wait()
            except TimeoutError:
                return

    def _leave_word(self) -> int:
        """Write the termination message; returns the agent's exit code."""
        state = self._supervisor.state
        refused = state.exit_code == names.EXIT_DO_NOT_RESTART
        message = TerminationMessage(
            run=state.run,
            round=self._ranks.round,
            position=state.position,
            outcome=self._outcome(),
            exit_code=state.exit_code,
            message=state.tail[-MAX_TEXT:],
        )
        leave_word(self._config.termination_log, message)
        return names.EXIT_DO_NOT_RESTART if refused else 0

    def _outcome(self) -> Literal["saved", "finished", "stopped"]:
        if self._supervisor.saved:
            return "saved"
        return "finished" if self._ranks.all_done() else "stopped"


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
