"""What is measured of one large job, in the order in which it leaves the job able to go on."""

import asyncio
import os
import signal
import statistics
import time
from collections import Counter
from typing import Final

from bench.fleet.bare import post_bare
from bench.fleet.cluster import FleetCluster, audit_between
from bench.fleet.figures import Figures, tell
from bench.fleet.job import LONE_SLOTS, LONG_SECONDS, FleetJob, started
from tests.api.support.api import Json, until
from tests.api.support.process import OperatorProcess

# Slots whose pods fail, one a repeat: a replaced pod is the next spare and holds no position.
FAILING_SLOTS: Final = (10, 11, 12)
LEADERLESS_SLOTS: Final = (20, 21, 22)
HALF_SILENT_SECONDS: Final = 30.0
READS: Final = frozenset({"get", "list", "watch"})


async def start(cluster: FleetCluster, workers: int, repeats: int, figures: Figures) -> None:
    """Apply to all pods running, beside a bare loop that makes the same pods."""
    times: list[float] = []
    bare: list[float] = []
    for number in range(repeats):
        bare.append(await post_bare(cluster, workers))
        figures.add("bare_post_s", bare[-1])
        async with started(cluster, f"start-{number}", workers, alive=False) as job:
            times.append(await job.until_all_run() - job.applied_at)
        figures.add("pods_running_s", times[-1])
    figures.add("pods_running_ratio", statistics.median(times) / statistics.median(bare))


async def pod(job: FleetJob, repeats: int, figures: Figures) -> None:
    """One pod fails."""
    for slot in FAILING_SLOTS[:repeats]:
        name = job.worker(slot)["metadata"]["name"]
        new = _next(name)
        began = time.time()
        await job.fail(slot)
        await job.pods.until(f"{new} runs", lambda new=new: new in job.ran, LONG_SECONDS)
        figures.add("pod_failed_s", job.ran[new] - began)
        await job.until_trains()
        figures.add("pod_failed_created", _created(job, began))


async def silent(job: FleetJob, repeats: int, figures: Figures) -> None:
    """The agent of one node falls silent with its connection open."""
    timeout = 5.0
    for slot in LONE_SLOTS[:repeats]:
        old = job.worker(slot)["metadata"]
        new = _next(old["name"])
        spares = [d.uid for d in job.crew.directives.values() if d.state == "park"]
        group = job.crew.groups[f"lone-{slot}"]
        group.freeze()
        began = time.time()

        def replaced(spares: list[str] = spares) -> bool:
            return any(job.crew.directives[uid].state == "train" for uid in spares)

        await job.crew.until("the spare is told to train", replaced, LONG_SECONDS)
        told = min(job.crew.directives[u].at for u in spares)
        lost = job.crew.beats[old["uid"]] + timeout
        figures.add("node_silent_directive_s", told - lost)
        await job.pods.until(f"{new} runs", lambda new=new: new in job.ran, LONG_SECONDS)
        figures.add("node_silent_replaced_s", job.ran[new] - lost)
        group.thaw()
        await job.until_trains()
        figures.add("node_silent_created", _created(job, began))


async def gang(job: FleetJob, repeats: int, figures: Figures) -> None:
    """nvrx-control ends: a new run in place."""
    for _ in range(repeats):
        run, began = job.run + 1, time.time()
        os.kill(job.coordinators.newest.control_pid, signal.SIGKILL)
        await job.job.until(f"run {run}", lambda run=run: run in job.run_at, LONG_SECONDS)
        await job.crew.until(
            f"all agents are told to train in run {run}",
            lambda run=run: len(job.crew.training(run)) >= job.workers,
            LONG_SECONDS,
        )
        last = max(line.at for line in job.crew.training(run))
        figures.add("gang_directive_s", last - job.run_at[run])
        await job.until_trains()
        figures.add("gang_created", _created(job, began))


async def leader(
    cluster: FleetCluster,
    job: FleetJob,
    leading: OperatorProcess,
    repeats: int,
    figures: Figures,
) -> None:
    """A pod fails and the leader is killed at the same moment: the standby makes the new pod."""
    began = time.time()
    for number, slot in enumerate(LEADERLESS_SLOTS[:repeats]):
        standby = cluster.operator(f"standby-{number}")
        await until("the standby is ready", lambda s=standby: _ready(s), LONG_SECONDS)
        new = _next(job.worker(slot)["metadata"]["name"])
        await job.fail(slot)
        killed = time.time()
        leading.kill()
        await job.pods.until(f"{new} is made", lambda new=new: new in job.created, LONG_SECONDS)
        figures.add("leader_killed_s", job.created[new] - killed)
        leading = standby
        await job.until_trains()
    entries = audit_between(cluster.server.audit_log, began, time.time())
    made = Counter(e["objectRef"]["name"] for e in entries if _created_pod(e))
    figures.add("leader_repeated", sum(count - 1 for count in made.values()))


async def _ready(operator: OperatorProcess) -> bool:
    return operator.probe("/readyz") == 200


def _created_pod(entry: Json) -> bool:
    what = entry["objectRef"]["resource"], entry["verb"], entry["responseStatus"]["code"]
    return what == ("pods", "create", 201)


async def half(job: FleetJob, figures: Figures) -> None:
    """Half of the workers fall silent at once: the network or the coordinator, not the nodes."""
    before = len(job.status.get("nodes", {}).get("excluded", ()))
    group = job.crew.groups["half"]
    began = time.time()
    group.freeze()
    try:
        await asyncio.sleep(HALF_SILENT_SECONDS)
    finally:
        group.thaw()
    entries = audit_between(job.cluster.server.audit_log, began, time.time())
    writes = Counter(_what(entry) for entry in entries if _counts(entry))
    for what, count in writes.most_common(10):
        tell(f"    {count} x {what}")
    figures.add("half_silent_writes", writes.total())
    after = len(job.status.get("nodes", {}).get("excluded", ()))
    figures.add("half_silent_excluded", after - before)


def _counts(entry: Json) -> bool:
    """Whether a request of the operator is a write other than of status, Events and its lease."""
    what = entry["objectRef"]
    free = what["resource"] in ("events", "leases") or what.get("subresource") == "status"
    return entry["verb"] not in READS and not free


def _what(entry: Json) -> str:
    return f"{entry['verb']} {entry['objectRef']['resource']}"


def _created(job: FleetJob, since: float) -> int:
    return sum(at >= since for at in job.created.values())


def _next(name: str) -> str:
    """Name of the pod that replaces this one."""
    stem, _, incarnation = name.rpartition("-")
    return f"{stem}-{int(incarnation) + 1}"
