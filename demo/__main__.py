"""`make demo`."""

import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo import faults, main_job, plot, report, setup
from demo.kube import Kube
from demo.screen import Screen, Story
from demo.watch import JobWatch
from localcluster.cluster import Cluster
from localcluster.progress import Bars

JOB = "demo"
OUT = Path("out") / "demo"


def _cluster(console: Console) -> tuple[Cluster, Kube]:
    """A fresh cluster with the operator in it; whatever an earlier run left is cleaned first."""
    cluster = Cluster()
    cluster.down()
    with Bars(console) as bars:
        cluster.up(nodes=4, images=True, on_progress=bars)
    kube = Kube(cluster.kubeconfig, cluster.program)
    with console.status("helm install"):
        setup.install_operator(kube)
        setup.install_storage(kube, cluster)
    return cluster, kube


def _summary(console: Console, results: list[report.FaultResult]) -> None:
    table = Table(title="What each fault cost")
    for column in ("FAULT", "CLASS", "RUNG", "DETECTED", "TRAINING AGAIN", "STEPS LOST"):
        table.add_column(column)
    for result in results:
        seconds = [
            "-" if value is None else f"{value:.1f} s"
            for value in (result.detected_s, result.recovered_s)
        ]
        lost = "-" if result.lost_steps is None else str(result.lost_steps)
        table.add_row(result.kind, result.fault_class, result.rung, *seconds, lost)
    console.print(table)


def _tell_how_to_look(console: Console, cluster: Cluster) -> None:
    programs = cluster.program("kubectl").parent
    console.print("The cluster is still up; make demo-down removes every trace. To look at it:")
    for line in (
        f"export KUBECONFIG={cluster.kubeconfig} PATH=$PATH:{programs}",
        f"kubectl describe rtj {JOB}",
    ):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    """Run the demo; 1 when the job did not go the way it should."""
    console = Console()
    began = time.monotonic()
    cluster, kube = _cluster(console)
    watch = JobWatch(kube, JOB)
    story = Story(console)
    injections = (
        lambda: faults.raise_exception(kube, JOB, rank=2),
        lambda: faults.kill_process(kube, JOB, rank=1),
        lambda: faults.kill_node(kube, JOB, setup.rank_away_from_leader(kube, JOB), cluster),
    )
    manifest = (setup.EXAMPLES / "demo.yaml").read_text()
    try:
        with Screen(console, story, watch):
            result = main_job.run(kube, watch, manifest, injections, story.tell)
    except (TimeoutError, RuntimeError) as problem:
        console.print(str(problem), style="bold red", markup=False)
        console.print(kube.kubectl("describe", "rtj", JOB, check=False), markup=False)
        return 1
    finally:
        watch.stop()
    console.print(kube.kubectl("get", "rtj"), markup=False, soft_wrap=True)
    results = [judged for _, judged in result.faults]
    _summary(console, results)
    kubernetes = json.loads(kube.run("kubectl", "version", "-o", "json"))
    built = report.build(
        result.created,
        watch.sorted_steps(),
        results,
        watch.status,
        kubernetes["serverVersion"]["gitVersion"],
    )
    report.write(OUT / "report.json", built)
    title = "ResilientTrainingJob demo: 2 nodes x 2 ranks, 1 spare, three faults"
    plot.timeline(OUT / "timeline.png", result.created, watch.sorted_steps(), result.faults, title)
    console.print(f"{OUT}/report.json  {OUT}/timeline.png  ({time.monotonic() - began:.0f} s)")
    _tell_how_to_look(console, cluster)
    return 0


if __name__ == "__main__":
    sys.exit(main())
