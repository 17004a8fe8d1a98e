"""What the operator itself costs: a thousand jobs, ten thousand nodes."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.fleet.cluster import NAMESPACE, PARALLEL, FleetCluster, in_parallel
from bench.fleet.figures import Figures, tell
from bench.fleet.job import manifest
from bench.fleet.views import Config
from bench.fleet.watch import Watch
from tests.api.support.api import Api, Json
from tests.api.support.jobs import core, jobs
from tests.api.support.kubelet import Kubelet
from tests.api.support.process import OperatorProcess
from tests.children import ending_with_us

LONG_SECONDS: Final = 600
SETTLE_SECONDS: Final = 20
STEADY_SECONDS: Final = 30
PROBE_SECONDS: Final = 0.02
# Workers of one of the jobs among ten thousand nodes.
JOB_WORKERS: Final = 1000


async def many_jobs(
    cluster: FleetCluster, operator: OperatorProcess, count: int, figures: Figures
) -> None:
    """That many jobs of one worker, all in steady training."""
    with _played_views(cluster):
        async with cluster.admin() as api:
            made = [(jobs(NAMESPACE), manifest(f"job-{n}", 1, spares=0)) for n in range(count)]
            await in_parallel(api, made)
            await _until_phase(cluster, "Running", count)
            await asyncio.sleep(SETTLE_SECONDS)
            before, began = _cpu_seconds(operator.pid), time.monotonic()
            await asyncio.sleep(STEADY_SECONDS)
            used = _cpu_seconds(operator.pid) - before
        figures.add("jobs_operator_cpu", 100 * used / (time.monotonic() - began))
        figures.add("jobs_operator_memory_mb", operator.rss_mb() * 1.048576)


async def many_nodes(
    cluster: FleetCluster, operator: OperatorProcess, workers: int, storm: int, figures: Figures
) -> None:
    """Jobs on part of very many nodes; then a storm of nodes that are not ready."""
    path = core(NAMESPACE, "pods")
    sizes = [JOB_WORKERS] * (workers // JOB_WORKERS) + [workers % JOB_WORKERS]
    async with cluster.admin() as api:
        for number, size in enumerate(filter(None, sizes)):
            await api.create(jobs(NAMESPACE), manifest(f"job-{number}", size, spares=0))
        pods = Watch(cluster.server.url, cluster.server.admin_token, path, lambda kind, pod: None)
        async with pods.running():
            await pods.until("all run", lambda: len(pods.running_pods) > workers, LONG_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        figures.add("nodes_operator_memory_mb", operator.rss_mb() * 1.048576)
        # The kubelets would report that all is well.
        cluster.freeze("kwok")
        probing = asyncio.create_task(_probe(operator))
        await _call_unready(api, storm)
        await asyncio.sleep(SETTLE_SECONDS)
        probing.cancel()
        (answers,) = await asyncio.gather(probing)
        tell(f"    {len(answers)} probes, the slowest {1000 * max(answers):.0f} ms")
        figures.add("nodes_storm_lag_ms", 1000 * statistics.quantiles(answers, n=100)[-1])
        figures.add("nodes_storm_memory_mb", operator.rss_mb() * 1.048576)


async def _probe(operator: OperatorProcess) -> list[float]:
    """Seconds that each answer of the operator's loop took, until cancelled."""
    taken: list[float] = []
    url = f"http://127.0.0.1:{operator.probe_port}/readyz"

    def ask() -> float:
        began = time.monotonic()
        with urllib.request.urlopen(url, timeout=30):
            return time.monotonic() - began

    try:
        while True:
            taken.append(await asyncio.to_thread(ask))
            await asyncio.sleep(PROBE_SECONDS)
    except asyncio.CancelledError:
        return taken


async def _call_unready(api: Api, count: int) -> None:
    hand = Kubelet(api, NAMESPACE)
    waiting = iter(range(count))

    async def work() -> None:
        for index in waiting:
            await hand.ready(f"node-{index}", "Unknown")

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


async def _until_phase(cluster: FleetCluster, phase: str, count: int) -> None:
    reached: set[str] = set()

    def heard(kind: str, job: Json) -> None:
        if job.get("status", {}).get("phase") == phase:
            reached.add(job["metadata"]["name"])

    watch = Watch(cluster.server.url, cluster.server.admin_token, jobs(NAMESPACE), heard)
    async with watch.running():
        await watch.until(f"{count} jobs {phase}", lambda: len(reached) >= count, LONG_SECONDS)


@contextmanager
def _played_views(cluster: FleetCluster) -> Generator[None]:
    config = Config(
        url=cluster.server.url,
        token=cluster.server.admin_token,
        namespace=NAMESPACE,
        master_key=cluster.master_key.hex(),
    )
    path = cluster.folder / "views.json"
    path.write_bytes(msgspec.json.encode(config))
    with (cluster.folder / "views.log").open("ab") as log:
        process = subprocess.Popen(
            ending_with_us([sys.executable, "-m", "bench.fleet.views", path]),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
