"""Makes the directive true: one launcher prepared or running, never two at work.

Level-triggered: each pass compares what is wanted with what is, and does the one next thing. A
launch that ended is not repeated by itself; the coordinator gives a new launch number for that.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec.structs import replace

from rtj_api.messages import MAX_TEXT, LauncherState, WorkerDirective
from rtj_trainer.agent import gpus, processes
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.exits import ExitLog, LauncherEnd
from rtj_trainer.agent.launcher_process import LauncherProcess
from rtj_trainer.agent.metrics import AgentMetrics
from rtj_trainer.agent.ranks import RankTable
from rtj_trainer.beats import clear_leave, request_leave
from rtj_trainer.nvrx import flags
from rtj_trainer.nvrx.launcher_events import (
    Joining,
    LauncherEvent,
    RankFailed,
    RankHung,
    RanksFinished,
    RanksSaved,
    Started,
)

_KILL_SECONDS: Final = 30.0
_PREPARE_RETRY_SECONDS: Final = 2.0
# How long ranks that left may take to mark it all.
_MARKS_SECONDS: Final = 2.0
State = Literal["parked", "joining", "training", "exited", "killed"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Launch:
    """Which launch: a change of any of these is another one."""

    run: int
    position: int
    launch: int

    @classmethod
    def of(cls, directive: WorkerDirective) -> "Launch":
        """The launch that a `train` directive means."""
        return cls(directive.run, directive.position, directive.launch)


class Supervisor:
    """Owns the launchers. `changed` is called whenever the state to report has changed."""

    def __init__(
        self,
        config: AgentConfig,
        ranks: RankTable,
        exits: ExitLog,
        metrics: AgentMetrics,
        changed: Callable[[], None],
    ) -> None:
        self._config = config
        self._ranks = ranks
        self._exits = exits
        self._metrics = metrics
        self._changed = changed
        self._wake = asyncio.Event()
        self._wanted: WorkerDirective | None = None
        self._prepared: LauncherProcess | None = None
        self._running: LauncherProcess | None = None
        self._launch: Launch | None = None
        self._launchers: set[LauncherProcess] = set()
        self._saved = False
        # When ranks ended with EXIT_SAVED; the launcher holds still since.
        self._left_at: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._prepare_after = 0.0
        # Why the running launch must end although nobody said so; "": it need not.
        self._lapsed = ""
        self.state = LauncherState()

    # --- what the rest of the agent asks and tells -------------------------------------------

    @property
    def launch(self) -> Launch | None:
        """The launch that runs, or ran last."""
        return self._launch

    @property
    def running(self) -> bool:
        """Whether a launcher is at work."""
        return self._running is not None

    @property
    def saved(self) -> bool:
        """Whether the last launch ended by an agreed save."""
        return self._saved

    def managed(self) -> set[int]:
        """Children whose exit status the event loop collects."""
        return {launcher.pid for launcher in self._launchers}

    def adopt(self, launcher: LauncherProcess) -> None:
        """Take over a launcher that was started before; it is the prepared one."""
        self._prepared = launcher
        self._launchers.add(launcher)
        self._spawn(self._follow(launcher))

    def want(self, directive: WorkerDirective) -> None:
        """Take the newest directive."""
        self._wanted = directive
        self._wake.set()

    def lapse(self, reason: str) -> None:
        """Kill the running launch: its position may have been given away."""
        if self._running is not None and not self._lapsed:
            _log.warning("launch %s: %s", self._launch, reason)
            self._lapsed = reason
            self._wake.set()

    def look(self) -> None:
        """Something changed; look again."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wake.clear()
            await self._pass()
            try:
                await asyncio.wait_for(self._wake.wait(), _PREPARE_RETRY_SECONDS)
            except TimeoutError:
                continue

    async def end(self) -> None:
        """Kill hard everything below the agent, the prepared launcher too; after `run` has ended.

        Comes back after _KILL_SECONDS at the latest.
        """
        left = await processes.kill_all((), self.managed(), time.monotonic() + _KILL_SECONDS)
        if left:
            _log.error("still there %.0f s after SIGKILL: %s", _KILL_SECONDS, sorted(left))
        if self._running is not None:
            self._running = None
            self._ranks.refresh()
            self._ranks.close()
            self._set(self._describe("killed", 0))

    # --- one pass ------------------------------------------------------------------------------

    async def _pass(self) -> None:
        if self._running is not None and self._running.ended is not None:
            await self._bury(self._running, self._running.ended)
        elif self._running is not None and self._have_left():
            self._saved = self._ranks.all_saved()
            await self._kill_running()
        elif self._running is not None and self._lapsed:
            await self._kill_running(self._lapsed)
        wanted = self._wanted
        match wanted.state if wanted else "park":
            case "park":
                await self._park()
            case "train":
                assert wanted is not None
                await self._train(wanted)
            case "leave":
                await self._leave()
            case _:
                return
        await self._prepare()

    async def _park(self) -> None:
        if self._running is not None:
            await self._kill_running()
        if self.state.state != "parked":
            self._set(LauncherState())

    async def _train(self, directive: WorkerDirective) -> None:
        launch = Launch.of(directive)
        if self._launch == launch:
            return
        if self._running is not None:
            await self._kill_running()
        if self._config.device == "cuda":
            await gpus.wait_until_free()
        if self._running is None and self._wanted is directive:
            await self._start(directive)

    async def _leave(self) -> None:
        if self._running is not None:
            request_leave(self._config.shm_dir)

    def _have_left(self) -> bool:
        """Whether the ranks saved and left; their votes may have reached them before our directive.

        The launcher must go at once, it would take their exit code for a failure and restart them.
        """
        if self._ranks.all_saved():
            return True
        since = self._left_at
        return since is not None and time.monotonic() - since > _MARKS_SECONDS

    # --- launchers -----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Hold a prepared launcher, unless training is about to start and needs the cores."""
        if self._prepared is not None and self._prepared.ended is not None:
            _log.warning(
                "prepared launcher ended with %d: %s",
                self._prepared.ended,
                self._prepared.tail(MAX_TEXT),
            )
            self._prepared = None
            self._prepare_after = time.monotonic() + _PREPARE_RETRY_SECONDS
        if self._prepared is not None or time.monotonic() < self._prepare_after:
            return
        if self._running is not None and not self._ranks.all_stepped():
            return
        self.adopt(await LauncherProcess.start(self._config.processes_per_node))

    async def _start(self, directive: WorkerDirective) -> None:
        launcher = self._prepared
        if launcher is None or launcher.ended is not None:
            launcher = await LauncherProcess.start(directive.processes_per_node)
            self.adopt(launcher)
        self._prepared = None
        self._launch = Launch.of(directive)
        self._running = launcher
        self._saved = False
        self._lapsed = ""
        self._left_at = None
        clear_leave(self._config.shm_dir)
        self._ranks.new_launch(directive.run)
        self._exits.new_round()
        self._metrics.launches.inc()
        self._set(self._describe("joining", launcher.pid))
        await launcher.order(flags.order(directive, self._config))

    async def _kill_running(self, reason: str = "") -> None:
        self._metrics.kills.inc()
        await self._clear()
        self._set(replace(self._describe("killed", 0), tail=reason))

    async def _bury(self, launcher: LauncherProcess, code: int) -> None:
        """The launcher ended by itself; what it left behind goes too."""
        _log.info("launcher %d of %s ended with %d", launcher.pid, self._launch, code)
        await self._clear()
        self._set(self._describe("exited", 0, self._exits.launcher_ended(code, launcher)))

    async def _clear(self) -> None:
        """Kill everything but the prepared launcher; comes back only when it is gone."""
        spare = () if self._prepared is None else (self._prepared.pid,)
        deadline = time.monotonic() + _KILL_SECONDS
        while left := await processes.kill_all(spare, self.managed(), deadline):
            _log.error("still there %.0f s after SIGKILL: %s", _KILL_SECONDS, sorted(left))
            deadline = time.monotonic() + _KILL_SECONDS
        self._ranks.refresh()
        self._ranks.close()
        self._running = None

    async def _follow(self, launcher: LauncherProcess) -> None:
        await launcher.follow(lambda event: self._on_event(launcher, event))
        self._launchers.discard(launcher)
        self._wake.set()

    def _on_event(self, launcher: LauncherProcess, event: LauncherEvent) -> None:
        if launcher is not self._running:
            return
        match event:
            case Joining():
                self._set(self._describe("joining", launcher.pid))
            case Started():
                self._exits.new_round()
                self._ranks.started(event)
                self._set(self._describe("training", launcher.pid))
            case RankHung():
                self._exits.hung(event.pid)
            case RankFailed():
                self._metrics.exits.inc()
                run = self._launch.run if self._launch else 0
                self._spawn(self._exits.failed(event, run, launcher))
            case RanksFinished():
                self._ranks.finished(event)
                self._changed()
            case RanksSaved():
                self._left_at = time.monotonic()
                self._wake.set()
            case _:
                self._wake.set()

    def _describe(self, state: State, pid: int, end: LauncherEnd | None = None) -> LauncherState:
        launch = self._launch or Launch(0, -1, -1)
        return LauncherState(
            state=state,
            run=launch.run,
            position=launch.position,
            launch=launch.launch,
            pid=pid,
            exit_code=end.exit_code if end else None,
            out_of_memory=end is not None and end.out_of_memory,
            tail=end.tail if end else "",
        )

    def _set(self, state: LauncherState) -> None:
        self.state = state
        self._changed()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
