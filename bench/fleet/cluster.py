"""The fleet's cluster: API server, scheduler, fake kubelets and nodes, and operators on top."""

import asyncio
import json
import secrets
import signal
import subprocess
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, ExitStack
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import yaml

from bench.fleet.addresses import PodRange
from localcluster.programs import ensure_kwok
from tests.api.support.api import Api, Json, connect
from tests.api.support.install import ACCOUNT, OPERATOR_NAMESPACE, install
from tests.api.support.jobs import core
from tests.api.support.process import OperatorProcess
from tests.api.support.server import ApiServer
from tests.children import ending_with_us

NAMESPACE: Final = "fleet"
# Where no operator looks.
BARE_NAMESPACE: Final = "bare"
STOP_SECONDS: Final = 15
# Requests under way at once when this side makes many objects.
PARALLEL: Final = 32
# Beside the workers' own: for the coordinator, and to go to when a node is lost.
SPARE_NODES: Final = 10


class FleetCluster:
    """Use as a context manager; everything it starts ends with it, and when this process dies."""

    def __init__(self, folder: Path, lease_seconds: int = 40) -> None:
        self.folder = folder
        # No controller would take the taint of a node that is not ready yet away again.
        self.server = ApiServer(folder, without=["TaintNodesByCondition"])
        self.pods = PodRange()
        self.master_key = secrets.token_hex(32).encode()
        # The operator's own account.
        self.token = ""
        self._lease_seconds = lease_seconds
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        with self._stack as stack:
            stack.callback(self.pods.close)
            stack.callback(self.server.stop)
            self.server.start()
            install(self.server)
            stack.callback(self._end_processes)
            self._start_scheduler()
            self._start_kwok()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def prepare(self, nodes: int, labels: int = 0) -> None:
        """Make the namespace, the operator's credentials and the nodes, and wait until all of them
        are ready."""
        async with self.admin() as api:
            for namespace in (NAMESPACE, BARE_NAMESPACE):
                await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            account = core(OPERATOR_NAMESPACE, "serviceaccounts", ACCOUNT, "token")
            grant = await api.create(account, {"spec": {"expirationSeconds": 86400}})
            self.token = grant["status"]["token"]
            await in_parallel(
                api, [("/api/v1/nodes", _node(index, labels)) for index in range(nodes)]
            )

    def admin(self) -> AbstractAsyncContextManager[Api]:
        """An administrator's client."""
        return connect(self.server.url, self.server.admin_token)

    def operator(self, name: str = "operator", **environment: str) -> OperatorProcess:
        """Start an operator for the fleet's namespace."""
        key = self.folder / "master.key"
        key.write_bytes(self.master_key)
        process = OperatorProcess(
            self.folder,
            name,
            {
                "KUBECONFIG": str(self.server.kubeconfig(self.token, "operator")),
                "RTJ_OPERATOR_LEASE_NAMESPACE": OPERATOR_NAMESPACE,
                "RTJ_OPERATOR_NAMESPACES": NAMESPACE,
                "RTJ_OPERATOR_MASTER_KEY_FILE": str(key),
                "RTJ_OPERATOR_LOG_LEVEL": "info",
                **environment,
            },
        )
        return self._stack.enter_context(process)

    def freeze(self, name: str) -> None:
        """Stop `kube-scheduler` or `kwok` where it stands."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def _start_scheduler(self) -> None:
        config = self.folder / "scheduler.yaml"
        kubeconfig = self.server.kubeconfig(self.server.admin_token, "scheduler")
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    # The default of 50 a second would be all that a fleet's start measures.
                    "clientConnection": {
                        "kubeconfig": str(kubeconfig),
                        "qps": 5000,
                        "burst": 5000,
                    },
                }
            )
        )
        scheduler = self.server.program("kube-scheduler")
        self._start("kube-scheduler", [scheduler, f"--config={config}", "--secure-port=0"])

    def _start_kwok(self) -> None:
        config = self.folder / "kwok.yaml"
        options = {
            "cidr": self.pods.cidr,
            "manageAllNodes": True,
            "nodeLeaseDurationSeconds": self._lease_seconds,
            "podPlayStageParallelism": 16,
            "nodePlayStageParallelism": 16,
            "enableCRDs": [],
        }
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
                    "kind": "KwokConfiguration",
                    "options": options,
                }
            )
        )
        kubeconfig = self.server.kubeconfig(self.server.admin_token, "kwok")
        self._start(
            "kwok",
            [ensure_kwok(), f"--config={config}", f"--kubeconfig={kubeconfig}", "--node-port=0"],
        )

    def _start(self, name: str, command: list[str | Path]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                ending_with_us(command), stdout=log, stderr=subprocess.STDOUT
            )

    def _end_processes(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(STOP_SECONDS)


async def in_parallel(api: Api, objects: Iterable[tuple[str, Json]]) -> None:
    """POST many objects, some at a time; raises ApiFailure."""
    waiting = iter(list(objects))

    async def work() -> None:
        for path, body in waiting:
            await api.create(path, body)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


def audit_between(log: Path, begin: float, end: float) -> list[Json]:
    """Requests about objects by service accounts (the operator) that were received within these
    times."""
    found: list[Json] = []
    with log.open() as lines:
        for line in lines:
            entry: Json = json.loads(line)
            at = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            ours = entry["user"]["username"].startswith("system:serviceaccount:")
            if ours and begin <= at <= end and "objectRef" in entry:
                found.append(entry)
    return found


def _node(index: int, labels: int) -> Json:
    name = f"node-{index}"
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}
            | {f"fleet.example/label-{n}": f"value-{n}" for n in range(labels)},
        },
        "spec": {"providerID": f"fleet:///{name}"},
    }
