"""Many agents in one process: the real link of each, and ranks that only count steps.

`python -m bench.fleet.agents CONFIG` follows the worker pods of some slots: one that runs gets an
agent, which connects to the newest coordinator pod, obeys its directives and claims steps. A line
of JSON on standard output tells of every directive that differs from the one before. Stopped by
SIGSTOP, all its agents fall silent with their connections open, as on a node that froze.
"""

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.fleet.watch import Watch, pod_runs
from rtj_api import names
from rtj_api.messages import Beat, LauncherState, RankBeat, WorkerDirective
from rtj_trainer.agent.config import AgentConfig
from rtj_trainer.agent.link import Link
from rtj_trainer.agent.metrics import AgentMetrics
from tests.api.support.api import Json
from tests.api.support.jobs import core

STEP_SECONDS: Final = 1.0


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods, and where things are."""

    url: str
    token: str
    namespace: str
    job: str
    job_uid: str
    key: str
    # Slots from the first to the last.
    first: int
    last: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of an agent: a directive that is new, or a beat that went out."""

    at: float
    uid: str
    slot: int
    incarnation: int
    state: str
    run: int = -1
    position: int = -1


class FleetAgent:
    """One worker pod's agent."""

    def __init__(self, config: AgentConfig, metrics: AgentMetrics, beats_told: bool) -> None:
        self._config = config
        self._beats_told = beats_told
        self._directive: WorkerDirective | None = None
        self._sequence = 0
        self._link = Link(config, metrics, self._beat, self._direct)
        self.coordinator = config.coordinator_host
        self.task = asyncio.create_task(self._link.run())

    def _direct(self, directive: WorkerDirective) -> None:
        old, self._directive = self._directive, directive
        if old is None or _claim(old) != _claim(directive):
            self._tell(directive.state, directive.run, directive.position)
            self._link.changed()

    def _beat(self) -> Beat:
        self._sequence += 1
        if self._beats_told:
            self._tell("beat")
        directive = self._directive
        if directive is None or directive.state != "train":
            return Beat(seq=self._sequence)
        launcher = LauncherState(
            state="training",
            run=directive.run,
            position=directive.position,
            launch=directive.launch,
            pid=1,
        )
        return Beat(seq=self._sequence, launcher=launcher, ranks=self._ranks(directive))

    def _ranks(self, directive: WorkerDirective) -> tuple[RankBeat, ...]:
        # All ranks of a fleet stand at the same step, as FSDP's do: the clock is their collective.
        step = int(time.monotonic() / STEP_SECONDS)
        count = directive.processes_per_node
        return tuple(
            RankBeat(
                local_rank=local,
                rank=directive.position * count + local,
                pid=1 + local,
                alive=True,
                step=step,
                phase="step",
                round=directive.round,
            )
            for local in range(count)
        )

    def _tell(self, state: str, run: int = -1, position: int = -1) -> None:
        line = Line(
            at=time.time(),
            uid=self._config.pod_uid,
            slot=self._config.slot,
            incarnation=self._config.incarnation,
            state=state,
            run=run,
            position=position,
        )
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()


class Agents:
    """The agents of the worker pods that run; follows pods and coordinators."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._metrics = AgentMetrics()
        self._agents: dict[str, FleetAgent] = {}
        # Incarnation -> address of the coordinator pods that run.
        self._coordinators: dict[int, str] = {}
        self._watch = Watch(
            config.url,
            config.token,
            core(config.namespace, "pods"),
            self._heard,
            f"{names.LABEL_JOB}={config.job}",
        )

    async def run(self) -> None:
        """Work until killed."""
        await self._watch.run()

    def _heard(self, kind: str, pod: Json) -> None:
        labels = pod["metadata"]["labels"]
        if labels[names.LABEL_ROLE] == names.ROLE_WORKER:
            self._follow(kind, pod)
            return
        incarnation = int(labels[names.LABEL_INCARNATION])
        if kind != "DELETED" and pod_runs(pod):
            self._coordinators[incarnation] = pod["status"]["podIP"]
        else:
            self._coordinators.pop(incarnation, None)
        for other in list(self._watch.objects.values()):
            if other["metadata"]["labels"][names.LABEL_ROLE] == names.ROLE_WORKER:
                self._follow("MODIFIED", other)

    def _follow(self, kind: str, pod: Json) -> None:
        config = self._config
        if not config.first <= int(pod["metadata"]["labels"][names.LABEL_SLOT]) <= config.last:
            return
        uid = pod["metadata"]["uid"]
        runs = kind != "DELETED" and pod_runs(pod)
        newest = max(self._coordinators, default=-1)
        address = self._coordinators.get(newest, "") if runs else ""
        agent = self._agents.get(uid)
        if agent is not None and agent.coordinator != address:
            agent.task.cancel()
            del self._agents[uid]
            agent = None
        if agent is None and address:
            beats_told = config.first == config.last
            self._agents[uid] = FleetAgent(self._of(pod, address), self._metrics, beats_told)

    def _of(self, pod: Json, address: str) -> AgentConfig:
        labels = pod["metadata"]["labels"]
        return AgentConfig(
            job_name=self._config.job,
            job_uid=self._config.job_uid,
            slot=int(labels[names.LABEL_SLOT]),
            incarnation=int(labels[names.LABEL_INCARNATION]),
            pod_name=pod["metadata"]["name"],
            pod_uid=pod["metadata"]["uid"],
            pod_ip=pod["status"]["podIP"],
            coordinator_host=address,
            processes_per_node=1,
            device="cpu",
            grace_seconds=30,
            key=bytes.fromhex(self._config.key),
            command=(),
            run_dir=Path("/nowhere"),
            shm_dir=Path("/nowhere"),
            termination_log=Path("/nowhere"),
        )


def _claim(directive: WorkerDirective) -> tuple[object, ...]:
    return directive.state, directive.run, directive.position, directive.launch


def main() -> None:
    """Entry point of the process."""
    logging.basicConfig(level=logging.ERROR)
    config = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config)
    asyncio.run(Agents(config).run())


if __name__ == "__main__":
    main()
