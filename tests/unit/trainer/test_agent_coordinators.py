"""Two real coordinators and the agent's links to them: whom it obeys, and what it tells of whom."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from rtj_api.messages import Beat, JobDirective, JobView, RankBeat, WorkerDirective
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.coordinators import Coordinators
from rtj_trainer.agent.metrics import AgentMetrics
from rtj_trainer.coordinator import main
from rtj_trainer.coordinator.settings import Settings
from tests.launcher.job import poll_until
from tests.launcher.operator_end import OperatorEnd, view_url
from tests.ports import free_port

_JOB = "uid"
_POD = "pod-3"
_WAIT_SECONDS = 20
_networks = itertools.count(1)


@dataclass
class Stage:
    """A worker's links, coordinators on addresses of their own, and an operator's end at each."""

    folder: Path
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    network: str = field(default_factory=lambda: f"127.80.{next(_networks)}")
    worker_port: int = field(default_factory=free_port)
    view_port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    directives: asyncio.Queue[WorkerDirective] = field(default_factory=asyncio.Queue)
    operators: dict[int, OperatorEnd] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def address(self, incarnation: int) -> str:
        return f"{self.network}.{incarnation}"

    def start_coordinator(self, incarnation: int) -> None:
        run_dir = self.folder / f"coordinator-{incarnation}"
        run_dir.mkdir(exist_ok=True)
        settings = Settings(
            job_uid=_JOB,
            incarnation=incarnation,
            key=self.key,
            store_host=self.address(incarnation),
            run_dir=run_dir,
            worker_port=self.worker_port,
            view_port=self.view_port,
            metrics_port=self.metrics_port,
            metrics_host=self.address(incarnation),
        )
        self.tasks[f"coordinator {incarnation}"] = asyncio.create_task(main.run(settings))

    async def end_coordinator(self, incarnation: int) -> None:
        task = self.tasks.pop(f"coordinator {incarnation}")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def direct(self, incarnation: int, **changes: object) -> None:
        """What the operator says to one of them; the worker is one of the job's pods."""
        operator = self.operators.get(incarnation)
        if operator is None:
            url = view_url(self.address(incarnation), self.view_port)
            operator = self.operators[incarnation] = OperatorEnd(url, _JOB, self.key)
            self.tasks[f"operator {incarnation}"] = asyncio.create_task(operator.run())
        directive = JobDirective(
            epoch=1,
            number=next(self.numbers),
            run=1,
            nodes=1,
            processes_per_node=1,
            pods={_POD: 3},
            beat_interval_seconds=0.5,
        )
        await operator.direct(replace(directive, **changes))

    def start_worker(self) -> Coordinators:
        config = AgentConfig(
            job_name="job",
            job_uid=_JOB,
            slot=3,
            incarnation=0,
            pod_name="job-worker-3-0",
            pod_uid=_POD,
            pod_ip="127.0.0.1",
            coordinator_host=self.address(1),
            processes_per_node=1,
            device="cpu",
            grace_seconds=30,
            key=self.key,
            command=("train.py",),
            run_dir=self.folder,
            shm_dir=self.folder,
            termination_log=self.folder / "log",
            worker_port=self.worker_port,
        )
        links = Coordinators(config, AgentMetrics(), _beat, self.directives.put_nowait)
        self.tasks["links"] = asyncio.create_task(links.run())
        return links

    async def told(self, condition: Callable[[WorkerDirective], bool]) -> WorkerDirective:
        """The next directive of that kind that the agent takes."""
        async with asyncio.timeout(_WAIT_SECONDS):
            while not condition(directive := await self.directives.get()):
                continue
            return directive

    async def shows(self, incarnation: int, condition: Callable[[JobView], bool]) -> JobView:
        return await self.operators[incarnation].until(
            lambda view: bool(view.workers) and condition(view), _WAIT_SECONDS
        )


def _beat() -> Beat:
    return Beat(seq=1, ranks=(RankBeat(local_rank=0, alive=True, step=7, checkpoint_step=5),))


@asynccontextmanager
async def _with_standby(folder: Path) -> AsyncIterator[Stage]:
    """The worker obeys incarnation 1 and knows of standby 2."""
    stage = Stage(folder)
    try:
        stage.start_coordinator(1)
        stage.start_coordinator(2)
        stage.start_worker()
        named = {"standby_host": stage.address(2), "standby_incarnation": 2}
        await stage.direct(1, **named)
        await stage.direct(2, active=False)
        await stage.told(lambda directive: directive.standby_incarnation == 2)
        await stage.shows(2, lambda view: view.workers[0].obeys_incarnation == 1)
        yield stage
    finally:
        for task in stage.tasks.values():
            task.cancel()
        await asyncio.gather(*stage.tasks.values(), return_exceptions=True)


async def test_standby_hears_the_worker_and_directs_it_not(tmp_path: Path) -> None:
    async with _with_standby(tmp_path) as stage:
        view = await stage.shows(2, lambda view: view.standby)
        worker = view.workers[0]
        assert worker.connected
        assert (worker.coordinator_silent_seconds, worker.position) == (0.0, -1)
        # A different run would show in a directive of the standby's.
        await stage.direct(2, active=False, run=9)
        await stage.shows(2, lambda view: view.directive_number >= 3)
        for _ in range(3):
            assert (await stage.told(lambda directive: True)).run == 1
        assert (await stage.shows(1, lambda view: True)).workers[0].connected


async def test_lost_coordinator_is_told_to_the_standby_within_its_silence(tmp_path: Path) -> None:
    async with _with_standby(tmp_path) as stage:
        loop = asyncio.get_running_loop()
        await stage.end_coordinator(1)
        ended = loop.time()
        await stage.shows(2, lambda view: view.workers[0].coordinator_silent_seconds > 2.0)
        assert 1.0 < loop.time() - ended < 3.5


async def test_promoted_standby_is_obeyed_and_its_predecessor_never_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _with_standby(tmp_path) as stage:
        await stage.direct(2, run=2)
        assert (await stage.told(lambda d: d.run == 2)).standby_incarnation == 0
        # The old one lives on, cut off from the operator alone, and has lost the worker.
        await stage.shows(1, lambda view: not view.workers[0].connected)
        view = await stage.shows(2, lambda view: not view.standby and view.highest_step == 7)
        assert (view.run, view.checkpoint_step) == (2, 5)
        assert view.workers[0].obeys_incarnation == -1, "a plain beat"

        # With the new one away for a while, the worker meets the old one, at the Service's address.
        await stage.end_coordinator(2)
        while not stage.directives.empty():
            stage.directives.get_nowait()
        await stage.direct(1, run=7)

        refusal = "incarnation 1 is over, 2 is obeyed"
        await poll_until(lambda: refusal in caplog.text, _WAIT_SECONDS, "refusal of the old one")
        stage.start_coordinator(2)
        assert (await stage.told(lambda directive: True)).run == 2


async def test_standby_named_anew_is_linked_to_and_the_former_let_go(tmp_path: Path) -> None:
    async with _with_standby(tmp_path) as stage:
        stage.start_coordinator(3)
        await stage.direct(3, active=False)
        await stage.direct(1, standby_host=stage.address(3), standby_incarnation=3)
        await stage.shows(3, lambda view: view.workers[0].obeys_incarnation == 1)
        await stage.shows(2, lambda view: not view.workers[0].connected)
        await stage.direct(1)
        await stage.shows(3, lambda view: not view.workers[0].connected)
