"""Ten thousand nodes and five thousand workers: what the operator's memory and its loop make of it.

A real etcd, API server and operator; nodes and pods are objects that no kubelet stands behind. Half
of the nodes are then set NotReady as fast as this machine can. Prints a JSON object a line.

    python -m bench.nodes [--nodes 10000] [--pods 5000]
"""

import argparse
import asyncio
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

from rtj_api import crd, names
from tests.api.support.api import Api, connect, until
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.api.support.waits import leads

NAMESPACE = "fleet"
UNDER_WAY = 32
STRATEGIC = "application/strategic-merge-patch+json"
LABELS = 40
IMAGES = 30
WORKERS_PER_JOB = 50


def a_node(number: int) -> dict[str, Any]:
    """As a kubelet on EKS registers it: about 10 KB."""
    labels = {f"example.com/label-{n}": f"value-{number}-{n}" for n in range(LABELS - 1)}
    labels["node.kubernetes.io/instance-type"] = "p5.48xlarge"
    return {
        "metadata": {"name": f"node-{number:05}", "labels": labels},
        "spec": {"providerID": f"aws:///us-east-1a/i-{number:017}"},
    }


def status_of_node(*, ready: bool) -> dict[str, Any]:
    """Its conditions and images."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure")
    well = [
        {
            "type": kind,
            "status": "False",
            "reason": f"KubeletHasNo{kind}",
            "message": f"kubelet has no {kind.lower()}",
        }
        for kind in kinds
    ]
    last = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "message": "kubelet is posting ready status" if ready else "stopped posting node status",
    }
    images = [
        {
            "names": [f"registry.example.com/team/image-{n}@sha256:{n:064}", f"image-{n}:v1"],
            "sizeBytes": 10**8 + n,
        }
        for n in range(IMAGES)
    ]
    return {"status": {"conditions": [*well, last], "images": images}}


def a_pod(number: int) -> dict[str, Any]:
    """A worker that is bound to a node of its own."""
    job, slot = divmod(number, WORKERS_PER_JOB)
    return {
        "metadata": {
            "name": f"job-{job}-worker-{slot}-0",
            "labels": {
                names.LABEL_JOB: f"job-{job}",
                names.LABEL_ROLE: "worker",
                names.LABEL_SLOT: str(slot),
                names.LABEL_INCARNATION: "0",
            },
        },
        "spec": {
            "nodeName": f"node-{number:05}",
            "containers": [{"name": "trainer", "image": "example.invalid/trainer:1"}],
        },
    }


async def all_of(work: Iterable[Awaitable[object]]) -> None:
    """Do it all, so many at once."""
    bound = asyncio.Semaphore(UNDER_WAY)

    async def one(item: Awaitable[object]) -> None:
        async with bound:
            await item

    await asyncio.gather(*(one(item) for item in work))


async def fill(api: Api, nodes: int, pods: int) -> None:
    """Make the nodes, ready, and the pods on them."""

    async def node(number: int) -> None:
        made = await api.create("/api/v1/nodes", a_node(number))
        path = f"/api/v1/nodes/{made['metadata']['name']}/status"
        await api.patch(path, status_of_node(ready=True))

    await all_of(node(number) for number in range(nodes))
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await all_of(api.create(path, a_pod(number)) for number in range(pods))


async def storm(api: Api, nodes: int) -> None:
    """Half of the nodes fall silent."""
    lost = {"status": {"conditions": [status_of_node(ready=False)["status"]["conditions"][-1]]}}
    await all_of(
        api.patch(f"/api/v1/nodes/node-{number:05}/status", lost, STRATEGIC)
        for number in range(nodes // 2)
    )


def delays(operator: OperatorProcess) -> dict[float, float]:
    """Bound in seconds -> how often the operator's loop was late by no more than that."""
    prefix = 'rtj_loop_delay_seconds_bucket{le="'
    return {
        float(name.removeprefix(prefix).partition('"')[0]): value
        for name, value in operator.metrics().items()
        if name.startswith(prefix)
    }


def p99(before: dict[float, float], after: dict[float, float]) -> float:
    """The least bound that 99 of 100 delays between both kept, in milliseconds."""
    counts = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = counts[float("inf")]
    return 1000 * next(bound for bound, count in counts.items() if count >= 0.99 * total)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def tell(name: str, value: float, unit: str, bar: float | None = None) -> bool:
    """Print a figure; returns whether it keeps its bar."""
    ok = bar is None or value <= bar
    figure = {"name": name, "value": round(value, 1), "unit": unit, "bar": bar, "ok": ok}
    sys.stdout.write(json.dumps(figure) + "\n")
    sys.stdout.flush()
    return ok


async def measure(server: ApiServer, api: Api, folder: Path, nodes: int, pods: int) -> bool:
    """All figures; whether they keep their bars."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await fill(api, nodes, pods)
    key = folder / "key"
    key.write_text(secrets.token_hex(32))
    environment = {
        "KUBECONFIG": str(server.kubeconfig(server.admin_token, "admin")),
        "RTJ_OPERATOR_MASTER_KEY_FILE": str(key),
        "RTJ_OPERATOR_LOG_LEVEL": "info",
    }
    began = time.monotonic()
    with OperatorProcess(folder, "operator", environment) as operator:
        await leads(operator, seconds=120)
        tell("start to leading", time.monotonic() - began, "s")
        good = tell("memory", operator.rss_mb(), "MB", 200)
        before, busy = delays(operator), cpu_seconds(operator.pid)
        began = time.monotonic()
        await storm(api, nodes)

        async def told() -> bool:
            found = operator.metrics()
            return found.get("rtj_nodes_not_ready", 0) >= nodes // 2

        await until("the operator knows all of it", told, seconds=60)
        tell("storm", time.monotonic() - began, "s")
        good &= tell("loop delay in the storm, p99", p99(before, delays(operator)), "ms", 100)
        tell("processor time of the storm", cpu_seconds(operator.pid) - busy, "s")
        return tell("memory after the storm", operator.rss_mb(), "MB", 200) and good


def install_crd(server: ApiServer) -> None:
    """As the models are now."""
    kubeconfig = server.kubeconfig(server.admin_token, "admin")
    kubectl = [str(server.program("kubectl")), f"--kubeconfig={kubeconfig}"]
    apply = [*kubectl, "apply", "--server-side", "-f", "-"]
    subprocess.run(apply, input=crd.render().encode(), check=True, stdout=sys.stderr)


async def run(nodes: int, pods: int) -> bool:
    """Start the server, measure, end it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = ApiServer(folder)
        await asyncio.to_thread(server.start)
        try:
            await asyncio.to_thread(install_crd, server)
            async with connect(server.url, server.admin_token) as api:
                return await measure(server, api, folder, nodes, pods)
        finally:
            server.stop()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=5_000)
    asked = parser.parse_args()
    sys.exit(not asyncio.run(run(asked.nodes, asked.pods)))


if __name__ == "__main__":
    main()
