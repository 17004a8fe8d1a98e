"""The demo's faults, each a named value: what is done, to whom, and at which rung it should end."""

import time
from dataclasses import dataclass

from demo.kube import Kube
from localcluster.cluster import Cluster
from rtj_api import names


@dataclass(frozen=True, slots=True)
class Rank:
    """A training process in its pod, as `python -m rtj_trainer.beats` lists it."""

    rank: int
    pod: str
    node: str
    pid: int


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was done."""

    kind: str
    unix: float
    target: str


def ranks(kube: Kube, job: str) -> list[Rank]:
    """All living training processes of a job, by rank."""
    found: list[Rank] = []
    for pod in kube.pods(job):
        worker = pod.metadata.labels.get(names.LABEL_ROLE) == names.ROLE_WORKER
        if not worker or pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            continue
        table = kube.kubectl(
            "exec", pod.metadata.name, "-c", names.CONTAINER_TRAINER, "--",
            "python", "-m", "rtj_trainer.beats", check=False,
        )  # fmt: skip
        for line in table.splitlines():
            cells = line.split()
            if len(cells) > 3 and cells[0].isdigit():
                place = (pod.metadata.name, pod.spec.node_name)
                found.append(Rank(int(cells[0]), *place, int(cells[2])))
    return sorted(found, key=lambda rank: rank.rank)


def rank_of(kube: Kube, job: str, rank: int) -> Rank:
    """One rank's process; LookupError when it is not there."""
    for process in ranks(kube, job):
        if process.rank == rank:
            return process
    raise LookupError(f"job {job}: rank {rank} is in no running pod")


def raise_exception(kube: Kube, job: str, rank: int) -> Injected:
    """The rank raises an exception at its next step."""
    process = rank_of(kube, job, rank)
    now = _exec(kube, process.pod, "python", "-m", "rtj_trainer.faults", "raise", f"--rank={rank}")
    return Injected("exception", now, f"rank {rank} ({process.pod})")


def kill_process(kube: Kube, job: str, rank: int) -> Injected:
    """kill -9 of the rank's process, from outside it."""
    process = rank_of(kube, job, rank)
    now = _exec(kube, process.pod, "sh", "-c", f"kill -9 {process.pid}")
    return Injected("process-killed", now, f"rank {rank} ({process.pod})")


def kill_node(kube: Kube, job: str, rank: int, cluster: Cluster) -> Injected:
    """kill -9 of every process of the node that the rank runs on, kubelet and containerd too."""
    process = rank_of(kube, job, rank)
    now = time.time()
    cluster.fault.kill_node(process.node)
    return Injected("node-killed", now, f"{process.node} (rank {rank})")


def kill_control(kube: Kube, job: str) -> Injected:
    """kill -9 of nvrx-control, the rendezvous host."""
    pods = kube.pods(job)
    pod = next(p for p in pods if p.metadata.labels[names.LABEL_ROLE] == names.ROLE_COORDINATOR)
    script = (
        "for p in /proc/[0-9]*; do "
        '[ "$(cat $p/comm)" = nvrx-control ] && kill -9 ${p#/proc/} && exit; done; exit 1'
    )
    now = _exec(kube, pod.metadata.name, "sh", "-c", script, container=names.CONTAINER_CONTROL)
    return Injected("control-killed", now, pod.metadata.name)


def _exec(kube: Kube, pod: str, *command: str, container: str = names.CONTAINER_TRAINER) -> float:
    """Run a command in a pod; the moment just before it is the fault's."""
    now = time.time()
    kube.kubectl("exec", pod, "-c", container, "--", *command)
    return now
