"""`python -m bench.fleet`: one JSON object a line, 1 when a bar is missed."""

import argparse
import asyncio
import json
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.fleet import crowds, judgement, rows
from bench.fleet.cluster import SPARE_NODES, FleetCluster
from bench.fleet.figures import RESULT, Figures, tell, write
from bench.fleet.job import started
from tests.api.support.waits import leads

REPEATS: Final = 3
# Rows of one job that goes on from one to the next.
_OF_A_JOB: Final = ("pod", "silent", "gang", "leader", "half")
ROWS: Final = ("decide", "start", *_OF_A_JOB, "jobs", "nodes")
# Labels of each node where there are very many of them.
_LABELS: Final = 40


async def measure(folder: Path, chosen: list[str], workers: int, repeats: int) -> Figures:
    """Measure the chosen rows."""
    figures = Figures()
    if "decide" in chosen:
        tell("decide()")
        judgement.measure(figures)
    if set(chosen).intersection(("start", *_OF_A_JOB)):
        await _one_job(_made(folder / "a"), chosen, workers, repeats, figures)
    if "jobs" in chosen:
        tell(f"{workers} jobs of one worker")
        with FleetCluster(_made(folder / "b")) as cluster:
            await cluster.prepare(workers + SPARE_NODES)
            await leads(operator := cluster.operator())
            await crowds.many_jobs(cluster, operator, workers, figures)
    if "nodes" in chosen:
        tell(f"{10 * workers} nodes, {5 * workers} workers")
        # So many leases renewed every ten seconds would be all that the machine does.
        with FleetCluster(_made(folder / "c"), lease_seconds=3600) as cluster:
            await cluster.prepare(10 * workers, labels=_LABELS)
            await leads(operator := cluster.operator())
            await crowds.many_nodes(cluster, operator, 5 * workers, 5 * workers, figures)
    return figures


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def _one_job(
    folder: Path, chosen: list[str], workers: int, repeats: int, figures: Figures
) -> None:
    tell(f"cluster for {workers} workers in {folder}")
    with FleetCluster(folder) as cluster:
        await cluster.prepare(workers + SPARE_NODES)
        await leads(operator := cluster.operator())
        if "start" in chosen:
            tell("start")
            await rows.start(cluster, workers, repeats, figures)
        if not set(chosen).intersection(_OF_A_JOB):
            return
        async with started(cluster, "fleet", workers) as job:
            await job.until_trains()
            if "pod" in chosen:
                tell("one pod fails")
                await rows.pod(job, repeats, figures)
            if "silent" in chosen:
                tell("one node falls silent")
                await rows.silent(job, repeats, figures)
            if "gang" in chosen:
                tell("a gang restart")
                await rows.gang(job, repeats, figures)
            if "leader" in chosen:
                tell("the leader is killed")
                await rows.leader(cluster, job, operator, repeats, figures)
            if "half" in chosen:
                tell("half of all fall silent")
                await rows.half(job, figures)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="bench.fleet", description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=REPEATS, choices=range(1, REPEATS + 1))
    parser.add_argument("--rows", default=",".join(ROWS), help="of " + ", ".join(ROWS))
    parser.add_argument(
        "--result", type=Path, help=f"file to keep the figures in, for example {RESULT.name}"
    )
    given = parser.parse_args()
    chosen = given.rows.split(",")
    if unknown := set(chosen) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="rtj-fleet-") as folder:
        figures = asyncio.run(measure(Path(folder), chosen, given.workers, given.repeats))
    lines = figures.judged(chosen)
    for line in lines:
        short = {key: line[key] for key in ("name", "value", "unit", "bar", "ok")}
        sys.stdout.write(json.dumps(short) + "\n")
    if given.result:
        write(lines, shlex.join(["python", "-m", "bench.fleet", *sys.argv[1:]]), given.result)
    return 0 if all(line["ok"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
