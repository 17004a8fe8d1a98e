"""A whole job on loopback addresses: control, coordinator and agents as in their pods.

Every process is the real one; only Kubernetes is missing. What a pod's death takes with it is
played by killing the agent and everything below it.
"""

import asyncio
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
from msgspec.structs import replace

from rtj_api import names
from rtj_api.messages import JobDirective, JobView
from rtj_trainer.beats import BeatReader
from rtj_trainer.prctl import die_with_parent
from tests.launcher.operator_end import OperatorEnd, view_url
from tests.ports import free_port

_POLL_SECONDS = 0.01
# A small model that trains until it is told to stop.
TRAIN = (
    "python",
    "-m",
    "rtj_trainer.reference",
    "--steps=100000",
    "--step-seconds=0.1",
    "--save-every=5",
    "--dim=64",
    "--layers=2",
    "--seq=16",
    "--batch=1",
)


def _free_network() -> str:
    """First three bytes of loopback addresses; another job on this host hardly has the same."""
    return f"127.{secrets.randbelow(250) + 1}.{secrets.randbelow(250) + 1}"


@dataclass
class Worker:
    """One worker pod's agent."""

    slot: int
    incarnation: int
    uid: str
    shm: Path
    process: subprocess.Popen[bytes]
    termination_log: Path

    def below(self) -> list[psutil.Process]:
        """Everything that dies with the pod, the agent included."""
        agent = psutil.Process(self.process.pid)
        return [agent, *agent.children(recursive=True)]

    def kill(self) -> None:
        """What a node's death does to the pod."""
        for process in self.below():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()

    def rank_processes(self) -> dict[int, int]:
        """local rank -> process id, as the ranks' records say."""
        return {record.local_rank: record.pid for record in BeatReader(self.shm).read()}

    def steps(self) -> list[int]:
        """Steps of its ranks, as their records say."""
        return [record.step for record in BeatReader(self.shm).read()]

    def launchers(self) -> list[int]:
        """Process ids of the agent's launchers, oldest first."""
        children = psutil.Process(self.process.pid).children()
        # Orphans that ranks have left to the agent lead no group.
        leaders = (child for child in children if os.getpgid(child.pid) == child.pid)
        return [child.pid for child in sorted(leaders, key=psutil.Process.create_time)]


@dataclass
class Job:
    """Start it with `running_job`."""

    folder: Path
    network: str
    command: tuple[str, ...]
    nodes: int
    processes_per_node: int
    environment: dict[str, str]
    operator: OperatorEnd
    directive: JobDirective
    # The operator's end at a coordinator that stands by.
    standby: OperatorEnd | None = None
    workers: dict[int, Worker] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    def prepare(
        cls, folder: Path, command: tuple[str, ...], nodes: int, processes_per_node: int
    ) -> Self:
        """Environment, key and the first directive; nothing runs yet."""
        uid, key = f"uid-{secrets.token_hex(4)}", secrets.token_bytes(32)
        (folder / "key").write_text(key.hex())
        network, view_port = _free_network(), free_port()
        coordinator = f"{network}.10"
        environment = {
            names.ENV_JOB_NAME: "job",
            names.ENV_JOB_UID: uid,
            names.ENV_NODES: str(nodes),
            names.ENV_PROCESSES_PER_NODE: str(processes_per_node),
            names.ENV_DEVICE: "cpu",
            names.ENV_GRACE_SECONDS: "30",
            names.ENV_COORDINATOR_HOST: coordinator,
            names.ENV_CHECKPOINT_DIR: str(folder / "checkpoints"),
            names.ENV_KEY_FILE: str(folder / "key"),
            names.ENV_STORE_PORT: str(free_port()),
            names.ENV_WORKER_PORT: str(free_port()),
            names.ENV_VIEW_PORT: str(view_port),
            "OMP_NUM_THREADS": "1",
            # NVRx leaves its sockets there.
            "TMPDIR": str(folder),
        }
        operator = OperatorEnd(view_url(coordinator, view_port), uid, key)
        directive = JobDirective(
            epoch=1,
            number=1,
            run=1,
            nodes=nodes,
            processes_per_node=processes_per_node,
            beat_interval_seconds=0.5,
            beat_timeout_seconds=3,
            rank_timeout_seconds=30,
            initial_rank_timeout_seconds=120,
        )
        return cls(
            folder, network, command, nodes, processes_per_node, environment, operator, directive
        )

    # --- processes -------------------------------------------------------------------------------

    def start_control(self, incarnation: int = 0) -> None:
        """The coordinator pod's container `control`."""
        self._start_in_coordinator("control", "rtj_trainer.coordinator.control", incarnation)

    def start_coordinator(self, incarnation: int = 0) -> None:
        """The coordinator pod's container `coordinator`."""
        self._start_in_coordinator("coordinator", "rtj_trainer.coordinator.main", incarnation)

    def coordinator_address(self, incarnation: int) -> str:
        """Of that coordinator pod."""
        return f"{self.network}.{10 + incarnation}"

    def _start_in_coordinator(self, name: str, module: str, incarnation: int) -> None:
        run_dir = self.folder / f"coordinator-{incarnation}"
        run_dir.mkdir(exist_ok=True)
        environment = {
            names.ENV_INCARNATION: str(incarnation),
            names.ENV_RUN_DIR: str(run_dir),
            names.ENV_POD_IP: self.coordinator_address(incarnation),
            names.ENV_METRICS_HOST: self.coordinator_address(incarnation),
        }
        self._start(f"{name}-{incarnation}" if incarnation else name, module, environment)

    def start_worker(self, slot: int, incarnation: int = 0) -> Worker:
        """A worker pod that holds the slot; the operator does not list it yet."""
        address = f"{self.network}.{20 + 10 * incarnation + slot}"
        name = f"worker-{slot}-{incarnation}"
        run_dir = self.folder / name
        run_dir.mkdir()
        environment = {
            names.ENV_SLOT: str(slot),
            names.ENV_INCARNATION: str(incarnation),
            names.ENV_POD_NAME: names.worker_pod("job", slot, incarnation),
            names.ENV_POD_UID: f"pod-{slot}-{incarnation}",
            names.ENV_POD_IP: address,
            names.ENV_METRICS_HOST: address,
            names.ENV_RUN_DIR: str(run_dir),
            names.ENV_SHM_DIR: str(run_dir / "shm"),
            names.ENV_TERMINATION_LOG: str(run_dir / "termination"),
        }
        arguments = ("rtj_trainer.agent.main", "--", *self.command)
        process = self._start(name, arguments[0], environment, *arguments[1:])
        worker = Worker(
            slot,
            incarnation,
            environment[names.ENV_POD_UID],
            run_dir / "shm",
            process,
            run_dir / "termination",
        )
        self.workers[slot] = worker
        return worker

    def log(self, name: str) -> str:
        """What a process has printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _start(
        self, name: str, module: str, environment: dict[str, str], *arguments: str
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=log,
                stderr=log,
                env=os.environ | self.environment | environment,
                start_new_session=True,
                # A killed test run leaves nothing behind.
                preexec_fn=die_with_parent,
            )
        self.processes[name] = process
        return process

    def stop(self) -> None:
        """End everything at once."""
        for process in self.processes.values():
            _kill_tree(process)

    # --- the operator's part ---------------------------------------------------------------------

    async def direct(self, **changes: object) -> None:
        """Say something new; by default that the workers started last may take part."""
        pods = {worker.uid: worker.slot for worker in self.workers.values()}
        self.directive = replace(
            self.directive, **{"number": self.directive.number + 1, "pods": pods, **changes}
        )
        await self.operator.direct(self.directive)

    async def stand_by(self, incarnation: int) -> None:
        """Have that coordinator stand by, and the workers know of it."""
        url = view_url(
            self.coordinator_address(incarnation), int(self.environment[names.ENV_VIEW_PORT])
        )
        key = bytes.fromhex((self.folder / "key").read_text())
        self.standby = OperatorEnd(url, self.environment[names.ENV_JOB_UID], key)
        named = {
            "standby_host": self.coordinator_address(incarnation),
            "standby_incarnation": incarnation,
        }
        await self.direct(**named)
        await self.standby.direct(replace(self.directive, active=False))

    async def promote(self) -> None:
        """The standby is the one that counts now, with a new run."""
        assert self.standby is not None
        self.operator, self.standby = self.standby, None
        await self.direct(run=self.directive.run + 1, standby_host="", standby_incarnation=0)

    async def until_step_beyond(self, step: int, seconds: float) -> JobView:
        """Until training has gone beyond a step."""
        return await self.operator.until(lambda view: view.step > step, seconds)

    @property
    def view(self) -> JobView:
        """The newest view."""
        assert self.operator.view is not None
        return self.operator.view


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    try:
        tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        tree = []
    for one in tree:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()


@asynccontextmanager
async def running_job(
    command: tuple[str, ...],
    nodes: int,
    processes_per_node: int,
    spares: int = 0,
    **directive: object,
) -> AsyncIterator[Job]:
    """A job whose control, coordinator and workers are started and wanted by the operator.

    `directive`: what the operator says other than by default.
    """
    # Short, for the paths of Unix sockets.
    with tempfile.TemporaryDirectory(prefix="rtj") as name:
        job = Job.prepare(Path(name), command, nodes, processes_per_node)
        running = asyncio.create_task(job.operator.run())
        try:
            job.start_control()
            job.start_coordinator()
            for slot in range(nodes + spares):
                job.start_worker(slot)
            await job.direct(**directive)
            yield job
        except BaseException:
            for log in sorted(job.folder.glob("*.log")):
                print(f"===== {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            job.stop()


async def poll_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for something that nobody announces."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        await asyncio.sleep(_POLL_SECONDS)


def ranks_by_position(view: JobView) -> dict[int, str]:
    """position -> pod UID."""
    return {worker.position: worker.pod_uid for worker in view.workers if worker.position >= 0}
