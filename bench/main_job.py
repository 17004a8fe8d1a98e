"""`make bench`: the main job's figures on a local cluster, against the bars in bars.json.

Every recovery is measured three times on one cluster, from the moment the fault is injected to the
first new step that rank 0 logs; the median counts, the worst is told beside it.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from bench import audit, operator_pod
from demo import faults, main_job, setup
from demo.faults import Injected
from demo.kube import Kube
from demo.report import judge
from demo.watch import Change, JobWatch
from localcluster.cluster import Cluster
from localcluster.progress import Bars
from rtj_api import names

HERE = Path(__file__).parent
RESULT = HERE / "results" / "main-job.json"
COMMAND = "make bench"
JOB = "bench"
REPEATS = 3
# Two train, one waits, and each repeat kills one that the job does not use again.
NODES = 3 + REPEATS
SETTLE_STEPS = 12
STEADY_SECONDS = 300
STEPS = 100_000


class Broken(AssertionError):
    """A recovery that did not keep what it must keep (process ids, ranks, pods)."""


@dataclass
class Bench:
    """One cluster, one job, and the values measured so far."""

    cluster: Cluster
    kube: Kube
    watch: JobWatch
    console: Console
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figure: str, value: float) -> None:
        """Keep a value and tell it."""
        self.values.setdefault(figure, []).append(round(value, 3))
        self.console.print(f"{figure}: {value:.2f}")

    def recover(self, figure: str, inject: Callable[[], Injected], keep: Callable[[], Any]) -> None:
        """Inject, wait for the recovery, check that `keep` is what it was."""

        def look_and_inject() -> tuple[Any, Injected]:
            return keep(), inject()

        before, fault = main_job.recover_from(self.watch, look_and_inject, SETTLE_STEPS, 120)
        result = judge(fault, time.time(), self.watch.sorted_steps(), list(self.watch.changes))
        after = keep()
        if before != after:
            raise Broken(f"{figure}: {before} became {after}")
        if result.recovered_s is None:
            raise Broken(f"{figure}: no new step after {fault.target}")
        self.add(figure, result.recovered_s)

    def process_ids(self) -> dict[int, int]:
        """Rank -> process id."""
        return {rank.rank: rank.pid for rank in faults.ranks(self.kube, JOB)}

    def places(self) -> dict[int, str]:
        """Rank -> pod."""
        return {rank.rank: rank.pod for rank in faults.ranks(self.kube, JOB)}

    def pod_uids(self) -> list[str]:
        """All pods of the job."""
        return sorted(pod.metadata.uid for pod in self.kube.pods(JOB))


def _manifest() -> str:
    """The demo's job under another name, long enough for all measurements, and patient: so many
    faults on purpose would exclude the nodes and use up the budgets."""
    job = yaml.safe_load((setup.EXAMPLES / "demo.yaml").read_text())
    job["metadata"]["name"] = JOB
    rungs = ("inProcess", "inJob", "pod", "node", "gang")
    for rung in rungs:
        job["spec"]["resilience"].setdefault(rung, {})["limit"] = 100
    job["spec"]["resilience"]["node"]["strikes"] = 100
    trainer = job["spec"]["template"]["spec"]["containers"][0]
    kept = [arg for arg in trainer["args"] if not arg.startswith("--steps=")]
    trainer["args"] = [*kept, f"--steps={STEPS}"]
    return yaml.safe_dump(job)


def _kill_agent(bench: Bench, rank: int) -> Injected:
    """SIGKILL of a worker's container from its node; PID 1 cannot be killed from inside."""
    process = faults.rank_of(bench.kube, JOB, rank)
    now = time.time()
    bench.cluster.fault.kill_container(
        process.node, bench.kube.namespace, process.pod, names.CONTAINER_TRAINER
    )
    return Injected("container-killed", now, process.pod)


def _known(bench: Bench) -> None:
    """Container dies -> the status is no longer that of a job in training; -> it names the fault,
    which waits for the kubelet's look at its containers, once a second."""
    fault = main_job.recover_from(
        bench.watch, lambda: _kill_agent(bench, rank=3), SETTLE_STEPS, 120
    )
    result = judge(fault, time.time(), bench.watch.sorted_steps(), list(bench.watch.changes))
    if result.detected_s is None:
        raise Broken("the status never named the dead container")
    known = (c.unix for c in bench.watch.changes if c.unix > fault.unix and _recovers(c))
    bench.add("container_died_known_s", next(known) - fault.unix)
    bench.add("container_died_named_s", result.detected_s)


def _recovers(change: Change) -> bool:
    return change.status.get("phase") == "Recovering"


def _spares_ready(bench: Bench) -> None:
    """The replacement of the last victim is there, or nothing waits for the next."""
    bench.watch.wait("spare", lambda w: w.status.get("workers", {}).get("spares", 0) >= 1, 120)


def _node_killed(bench: Bench) -> None:
    """A node dies; ranks on other nodes stay where they are."""
    _spares_ready(bench)

    def survivors() -> dict[int, str]:
        return {r: pod for r, pod in bench.places().items() if r < 2}

    bench.recover(
        "node_killed_s", lambda: faults.kill_node(bench.kube, JOB, 3, bench.cluster), survivors
    )


def _steady(bench: Bench) -> None:
    """Five quiet minutes: the operator's writes in the API server's audit log."""
    _spares_ready(bench)
    bench.watch.wait_step(bench.watch.highest_step + 2 * SETTLE_STEPS, 120)
    since = time.time()
    bench.console.print(f"steady state for {STEADY_SECONDS} s")
    bench.watch.wait("steady state", lambda _: time.time() - since > STEADY_SECONDS, 600)
    writes = audit.operator_writes(bench.cluster.audit_log, since)
    for write in writes:
        bench.console.print(f"  {write}")
    bench.add("steady_writes_per_minute", len(writes) / (STEADY_SECONDS / 60))
    bench.add("operator_memory_mb", operator_pod.memory_mb(bench.kube))


def measure(bench: Bench) -> None:
    """All figures, in an order that leaves each fault a healthy job."""
    bench.watch.start()
    created = main_job.apply(bench.kube, _manifest())
    bench.watch.wait_step(1, 120)
    bench.add("first_step_s", bench.watch.sorted_steps()[0].unix - created)
    for _ in range(REPEATS):
        bench.recover(
            "exception_s", lambda: faults.raise_exception(bench.kube, JOB, 2), bench.process_ids
        )
        bench.recover(
            "process_killed_s", lambda: faults.kill_process(bench.kube, JOB, 1), bench.pod_uids
        )
        bench.recover(
            "control_killed_s", lambda: faults.kill_control(bench.kube, JOB), bench.pod_uids
        )
        _spares_ready(bench)
        _known(bench)
        _node_killed(bench)
    _steady(bench)


def _result(values: dict[str, list[float]]) -> dict[str, Any]:
    bars = json.loads((HERE / "bars.json").read_text())
    figures = {}
    for name, bar in bars.items():
        all_values = values[name]
        middle = statistics.median(all_values)
        figures[name] = {
            **bar,
            "median": middle,
            "worst": max(all_values),
            "values": all_values,
            "met": bar["at_most"] is None or middle <= bar["at_most"],
        }
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return {
        "command": COMMAND,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit,
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}",
        "figures": figures,
    }


def main() -> int:
    """Measure and write bench/results/main-job.json; 1 when a bar is missed."""
    console = Console()
    cluster = Cluster()
    cluster.down()
    with Bars(console) as bars:
        cluster.up(nodes=NODES, images=True, on_progress=bars)
    kube = Kube(cluster.kubeconfig, cluster.program)
    setup.install_operator(kube)
    setup.install_storage(kube, cluster)
    watch = JobWatch(kube, JOB)
    bench = Bench(cluster, kube, watch, console)
    try:
        measure(bench)
    finally:
        watch.stop()
        cluster.down()
    result = _result(bench.values)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    missed = [name for name, figure in result["figures"].items() if not figure["met"]]
    console.print(f"missed: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
