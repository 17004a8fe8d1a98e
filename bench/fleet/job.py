"""One job of many workers in the fleet, from its manifest to its end."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from bench.fleet.agents import Config
from bench.fleet.cluster import NAMESPACE, FleetCluster
from bench.fleet.coordinators import Coordinators
from bench.fleet.crew import Crew
from bench.fleet.watch import Watch, pod_runs
from rtj_api import auth, names
from tests.api.support import jobs
from tests.api.support.api import Api, Json
from tests.api.support.jobs import core
from tests.api.support.kubelet import Kubelet

# How long a start or a recovery may take before the measurement is given up.
LONG_SECONDS: Final = 180
# Slots whose agents are alone in their process, to be silenced one a repeat.
LONE_SLOTS: Final = (0, 1, 2)


def manifest(name: str, workers: int, spares: int = 1) -> Json:
    """A job with budgets that measurements do not use up, and one coordinator."""
    rungs: dict[str, Any] = {
        rung: {"limit": 1000} for rung in ("inProcess", "inJob", "pod", "node", "gang")
    }
    rungs["node"]["strikes"] = 100
    rungs["coordinator"] = {"standby": False}
    return jobs.job(NAMESPACE, name, nodes=workers, spares=spares, resilience=rungs)


@dataclass(slots=True)
class FleetJob:
    """A running job; `pods` and `job` are what the watches say."""

    api: Api
    cluster: FleetCluster
    name: str
    workers: int
    spares: int
    alive: bool
    crew: Crew
    coordinators: Coordinators
    pods: Watch
    job: Watch
    applied_at: float = 0.0
    # Pod name -> when the watch first told of it, and of its running.
    created: dict[str, float] = field(default_factory=dict[str, float])
    ran: dict[str, float] = field(default_factory=dict[str, float])
    # Run -> when the watch first told of a status with it.
    run_at: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def status(self) -> Json:
        """The newest status."""
        return self.job.objects.get(self.name, {}).get("status", {})

    @property
    def run(self) -> int:
        """The newest run."""
        return self.status.get("run", 0)

    def worker(self, slot: int) -> Json:
        """The newest pod of a slot."""
        pods = (
            pod
            for pod in self.pods.objects.values()
            if pod["metadata"]["labels"].get(names.LABEL_SLOT) == str(slot)
        )
        return max(pods, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_INCARNATION]))

    async def until_all_run(self) -> float:
        """Wait until workers, spares and coordinator run; returns the time."""
        wanted = self.workers + self.spares + 1
        return await self.pods.until(
            f"{wanted} pods run", lambda: len(self.pods.running_pods) >= wanted, LONG_SECONDS
        )

    async def until_trains(self) -> None:
        """Wait until nothing is recovered from and new steps arrive."""
        await self.until_all_run()
        await self.job.until(
            f"phase Running, not {self.status.get('phase')}",
            lambda: (
                self.status.get("phase") == "Running"
                and self.status["workers"].get("ready") == self.workers
                and self.status["workers"].get("spares") == self.spares
            ),
            LONG_SECONDS,
        )

    async def fail(self, slot: int) -> None:
        """The slot's pod fails, as its kubelet tells it."""
        await Kubelet(self.api, NAMESPACE).end(self.worker(slot)["metadata"]["name"], 1)

    def heard_pod(self, kind: str, pod: Json) -> None:
        """Note when a pod was made and when it ran."""
        if kind != "DELETED":
            name = pod["metadata"]["name"]
            self.created.setdefault(name, time.time())
            if pod_runs(pod):
                self.ran.setdefault(name, time.time())
        if self.alive:
            self.coordinators.heard(kind, pod)

    def heard_job(self, kind: str, job: Json) -> None:
        """Note when a run began."""
        if kind != "DELETED" and job["metadata"]["name"] == self.name:
            self.run_at.setdefault(job.get("status", {}).get("run", 0), time.time())


@asynccontextmanager
async def started(
    cluster: FleetCluster, name: str, workers: int, spares: int = 1, *, alive: bool = True
) -> AsyncGenerator[FleetJob]:
    """Apply a job; `alive`: with its coordinator and agents. At the end all of it is gone."""
    folder = cluster.folder / name
    folder.mkdir()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(cluster.admin())
        coordinators = Coordinators(folder, cluster.master_key)
        stack.callback(coordinators.close)
        crew = Crew(folder)
        stack.push_async_callback(crew.close)
        admin = cluster.server.url, cluster.server.admin_token
        selector = f"{names.LABEL_JOB}={name}"
        pods = Watch(*admin, core(NAMESPACE, "pods"), lambda k, o: job.heard_pod(k, o), selector)
        watch = Watch(*admin, jobs.jobs(NAMESPACE), lambda k, o: job.heard_job(k, o))
        job = FleetJob(api, cluster, name, workers, spares, alive, crew, coordinators, pods, watch)
        await stack.enter_async_context(pods.running())
        await stack.enter_async_context(watch.running())
        stack.push_async_callback(_remove, api, name, pods)
        job.applied_at = time.time()
        made = await api.create(jobs.jobs(NAMESPACE), manifest(name, workers, spares))
        if alive:
            await _start_agents(cluster, job, made["metadata"]["uid"])
        yield job


async def _start_agents(cluster: FleetCluster, job: FleetJob, uid: str) -> None:
    first = LONE_SLOTS[-1] + 1
    middle = first + job.workers // 2
    groups = {f"lone-{slot}": (slot, slot) for slot in LONE_SLOTS}
    groups |= {"half": (first, middle - 1), "rest": (middle, job.workers + job.spares)}
    for name, (first, last) in groups.items():
        config = Config(
            url=cluster.server.url,
            token=cluster.server.admin_token,
            namespace=NAMESPACE,
            job=job.name,
            job_uid=uid,
            key=auth.job_key(cluster.master_key, uid).hex(),
            first=first,
            last=last,
        )
        await job.crew.start(name, config)


async def _remove(api: Api, name: str, pods: Watch) -> None:
    """No controller runs that would collect what a job leaves."""
    await api.delete(jobs.jobs(NAMESPACE, name))
    selector = f"labelSelector={names.LABEL_JOB}%3D{name}"
    await api.delete(f"{core(NAMESPACE, 'pods')}?{selector}", grace_seconds=0)
    await pods.until("all pods are gone", lambda: not pods.objects, LONG_SECONDS)
    await api.delete(f"{jobs.policies(NAMESPACE)}?{selector}")
    for service in await api.items(f"{core(NAMESPACE, 'services')}?{selector}"):
        await api.delete(core(NAMESPACE, "services", service["metadata"]["name"]))
    await api.delete(f"{core(NAMESPACE, 'secrets')}?{selector}")
