"""The command line: `python -m localcluster`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from localcluster import preflight, programs
from localcluster.cluster import Cluster
from localcluster.errors import LocalClusterError
from localcluster.images import build
from localcluster.progress import Bars


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 with a message on a failure that is ours."""
    options = _parser().parse_args(arguments)
    try:
        _run(options, Cluster(options.instance))
    except (LocalClusterError, ValueError) as error:
        print(f"localcluster: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localcluster", description=__doc__)
    parser.add_argument(
        "--instance",
        type=int,
        default=int(os.environ.get("LOCALCLUSTER_INSTANCE", "0")),
        help="number of the cluster, so that several can exist at once (default: %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring a cluster up; a healthy one is kept")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--zones", default="local-a", help="comma-separated, given to nodes in turn")
    up.add_argument("--images", action="store_true", help="also build and load our images")
    commands.add_parser("down", help="remove every trace of it")
    commands.add_parser("status", help="show its nodes")
    commands.add_parser("kubeconfig", help="print the path of the admin's kubeconfig")
    commands.add_parser("programs", help="build the pinned programs and print their paths")
    commands.add_parser("images", help="build our images and load them if the cluster runs")
    restart = commands.add_parser("restart-node", help="bring a node back, empty")
    restart.add_argument("node")
    _add_faults(commands.add_parser("fault", help="inject or end a fault"))
    return parser


def _add_faults(parser: argparse.ArgumentParser) -> None:
    faults = parser.add_subparsers(dest="fault", required=True)
    for name, text in {
        "kill-node": "end every process of the node at once",
        "freeze-node": "stop every process of the node",
        "thaw-node": "let a frozen node go on",
        "partition-node": "cut the node's network",
        "heal-node": "join the node's network again",
    }.items():
        faults.add_parser(name, help=text).add_argument("node")
    condition = faults.add_parser("condition", help="set a condition of the Node")
    condition.add_argument("node")
    condition.add_argument("type")
    condition.add_argument("status", choices=["True", "False", "Unknown"])
    condition.add_argument("reason", nargs="?", default="LocalFault")


def _run(options: argparse.Namespace, cluster: Cluster) -> None:
    match options.command:
        case "up":
            with Bars() as bars:
                zones = options.zones.split(",")
                cluster.up(options.nodes, zones=zones, images=options.images, on_progress=bars)
            print(f"export KUBECONFIG={cluster.kubeconfig}")
        case "down":
            cluster.down()
        case "status":
            Console().print(_status_table(cluster))
        case "kubeconfig":
            print(cluster.kubeconfig)
        case "programs":
            with Bars() as bars:
                found = programs.ensure(bars)
            for name, path in sorted(found.paths.items()):
                print(f"{name} {path}")
        case "images":
            with Bars() as bars:
                preflight.ensure(bars)
                if cluster.running():
                    cluster.load_images(bars)
                else:
                    build.products(bars)
        case "restart-node":
            cluster.restart_node(options.node)
        case "fault":
            _inject(options, cluster)


def _inject(options: argparse.Namespace, cluster: Cluster) -> None:
    if options.fault == "condition":
        cluster.fault.condition(options.node, options.type, options.status, options.reason)
        return
    faults = {
        "kill-node": cluster.fault.kill_node,
        "freeze-node": cluster.fault.freeze_node,
        "thaw-node": cluster.fault.thaw_node,
        "partition-node": cluster.fault.partition_node,
        "heal-node": cluster.fault.heal_node,
    }
    faults[options.fault](options.node)


def _status_table(cluster: Cluster) -> Table:
    table = Table("NODE", "ZONE", "PROCESSES", "LINK", "READY", box=None)
    for status in cluster.status():
        processes = "frozen" if status.frozen else "alive" if status.alive else "dead"
        link = "up" if status.linked else "cut"
        table.add_row(status.name, status.zone, processes, link, status.ready)
    return table
