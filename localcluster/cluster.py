"""The cluster as one object: up, down, its state and its faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from localcluster import cgroups, cleanup, controlplane, dns, network, node, preflight, shell
from localcluster import programs as pinned
from localcluster.api import Api
from localcluster.errors import ClusterDown, UnknownNode
from localcluster.faults import Faults
from localcluster.images import build, load
from localcluster.images.store import Image
from localcluster.layout import MAX_NODES, Layout
from localcluster.lock import exclusive
from localcluster.node import NodeSpec
from localcluster.pki import Authority
from localcluster.programs import Programs
from localcluster.progress import Report, Step, silent

TASK = "cluster"
CONTROL_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "coredns",
)
NODE_PROGRAMS = ("containerd", "kubelet", "kube-proxy")


@dataclass(frozen=True)
class Record:
    """What the running cluster was made of; kept on disk for the next command."""

    nodes: tuple[NodeSpec, ...]
    programs: dict[str, str]
    images: dict[str, str]


@dataclass(frozen=True)
class NodeStatus:
    """One node as seen from the machine and from the API server."""

    name: str
    zone: str
    alive: bool
    frozen: bool
    linked: bool
    ready: str


class Cluster:
    """A cluster on this machine; the instance number makes several possible at once."""

    def __init__(self, instance: int = 0) -> None:
        self.layout = Layout(instance)
        self.fault = Faults(self.layout, self._node_names)
        self._authority = Authority(self.layout)

    @property
    def kubeconfig(self) -> Path:
        """Admin's kubeconfig, for programs on this machine."""
        return self.layout.kubeconfig

    @property
    def shared_dir(self) -> Path:
        """Folder that every node sees: a hostPath volume in it stands for a shared file system."""
        return self.layout.shared

    @property
    def audit_log(self) -> Path:
        """One JSON line for each request, but for the cluster's own reads, leases and events."""
        return self.layout.audit_log

    def program(self, name: str) -> Path:
        """Path of a pinned program, e.g. kubectl or helm."""
        return Path(self._record().programs[name])

    def up(
        self,
        nodes: int = 4,
        *,
        zones: Sequence[str] = ("local-a",),
        images: bool = True,
        on_progress: Report = silent,
    ) -> None:
        """Bring up `nodes` nodes, spread over `zones` in turn.

        A healthy cluster of the same shape is kept and only gets the images that changed; anything
        else of this instance is removed first. Without `images` only the pause image is there.
        """
        specs = _specs(nodes, zones)
        preflight.ensure(on_progress)
        with exclusive(self.layout.lock), ThreadPoolExecutor(max_workers=2) as pool:
            products = pool.submit(build.products, on_progress) if images else None
            programs = pinned.ensure(on_progress)
            pause = build.pause(programs)
            if not self._keeps(specs, programs):
                cleanup.remove_all(self.layout)
                self._start(specs, programs, pause, on_progress)
            wanted = [pause, *(products.result() if products else [])]
            self._load(specs, wanted, on_progress)
            self._write_record(Record(specs, _paths(programs), self._images_with(wanted)))
            on_progress(Step(TASK, f"{nodes} nodes ready, {self.kubeconfig}", finished=True))

    def down(self) -> None:
        """Remove every trace of this instance; harmless when there is none."""
        with exclusive(self.layout.lock):
            cleanup.remove_all(self.layout)

    def load_images(self, on_progress: Report = silent) -> None:
        """Build the images and bring them to the nodes of the running cluster."""
        with exclusive(self.layout.lock):
            record = self._record()
            images = build.products(on_progress)
            self._load(record.nodes, images, on_progress)
            self._write_record(Record(record.nodes, record.programs, self._images_with(images)))

    def restart_node(self, name: str) -> None:
        """Bring a node back empty, as a repaired or replaced machine of the same name."""
        with exclusive(self.layout.lock):
            record = self._record()
            spec = next((spec for spec in record.nodes if spec.name == name), None)
            if spec is None:
                raise UnknownNode(name, self._node_names())
            cleanup.remove_node(self.layout, name)
            began = datetime.now(UTC)
            node.start_runtime(self.layout, spec)
            for image in build.existing(record.images):
                load.load(self.layout, name, image)
            programs = Programs({key: Path(path) for key, path in record.programs.items()})
            node.start_agents(self.layout, programs, self._authority, spec)
            self._wait_ready([spec], since=began)

    def status(self) -> list[NodeStatus]:
        """State of each node; fails if the cluster is down."""
        record = self._record()
        ready = self._ready_conditions()
        return [
            NodeStatus(
                name=spec.name,
                zone=spec.zone,
                alive=self._node_alive(spec.name),
                frozen=cgroups.frozen(self.layout.node_key(spec.name)),
                linked=network.link_is_up(self.layout, spec.name),
                ready=ready[spec.name]["status"] if spec.name in ready else "missing",
            )
            for spec in record.nodes
        ]

    def running(self) -> bool:
        """True when an `up` was completed and every program is alive."""
        return self.layout.record.exists() and self._control_alive()

    # Starting.

    def _start(
        self, specs: Sequence[NodeSpec], programs: Programs, pause: Image, report: Report
    ) -> None:
        layout, authority = self.layout, self._authority
        report(Step(TASK, "control plane and container runtimes"))
        layout.shared.mkdir(parents=True)
        cleanup.create_mount_points()
        authority.create()
        network.create_bridge(layout)
        with ThreadPoolExecutor(max_workers=len(specs)) as pool:
            runtimes = [pool.submit(self._start_runtime, spec, pause) for spec in specs]
            api = controlplane.start(layout, programs, authority)
            dns.start(layout, programs, authority, api)
            report(Step(TASK, "nodes"))
            for runtime, spec in zip(runtimes, specs, strict=True):
                runtime.result()
                node.start_agents(layout, programs, authority, spec)
        dns.wait_ready(layout)
        controlplane.wait_for_service_accounts(layout, api)
        self._wait_ready(specs)

    def _start_runtime(self, spec: NodeSpec, pause: Image) -> None:
        node.start_runtime(self.layout, spec)
        load.load(self.layout, spec.name, pause)

    def _load(self, specs: Iterable[NodeSpec], images: Sequence[Image], report: Report) -> None:
        """Bring images to all nodes; two at a time, for it is work for the disk."""
        known = self._known_images()
        changed = [image for image in images if known.get(image.name) != image.id]
        if not changed:
            return
        report(Step(TASK, f"images to nodes: {', '.join(image.name for image in changed)}"))

        def bring(spec: NodeSpec) -> None:
            for image in changed:
                load.load(self.layout, spec.name, image)

        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(bring, specs))

    def _wait_ready(self, specs: Sequence[NodeSpec], since: datetime | None = None) -> None:
        """Wait until kubelets say that they are ready; `since` discards what they said before."""
        earliest = since.strftime("%Y-%m-%dT%H:%M:%SZ") if since else ""

        def ready(name: str) -> bool:
            found = self._ready_conditions().get(name)
            return bool(
                found and found["status"] == "True" and found["lastHeartbeatTime"] >= earliest
            )

        for spec in specs:
            shell.wait_until(
                f"node {spec.name}",
                lambda name=spec.name: ready(name),
                seconds=node.READY_SECONDS,
                log=node.log_of(self.layout, spec.name, "kubelet"),
            )

    # Judging.

    def _keeps(self, specs: tuple[NodeSpec, ...], programs: Programs) -> bool:
        """True when the running cluster is the wanted one and nothing in it is broken."""
        if not self.running():
            return False
        record = self._record()
        if record.nodes != specs or record.programs != _paths(programs):
            return False
        if not Api(self.layout).ready():
            return False
        return all(
            status.alive and status.linked and not status.frozen and status.ready == "True"
            for status in self.status()
        )

    def _control_alive(self) -> bool:
        return all(controlplane.alive(self.layout, program) for program in CONTROL_PROGRAMS)

    def _node_alive(self, name: str) -> bool:
        group = self.layout.node_key(name)
        return all(cgroups.pids(f"{group}/{program}") for program in NODE_PROGRAMS)

    def _ready_conditions(self) -> dict[str, dict[str, str]]:
        return {
            item["metadata"]["name"]: condition
            for item in Api(self.layout).get("/api/v1/nodes")["items"]
            for condition in item["status"].get("conditions", [])
            if condition["type"] == "Ready"
        }

    # The record.

    def _node_names(self) -> list[str]:
        return [spec.name for spec in self._record().nodes]

    def _known_images(self) -> dict[str, str]:
        """Names and ids of the images that the nodes have."""
        return self._record().images if self.layout.record.exists() else {}

    def _images_with(self, loaded: Iterable[Image]) -> dict[str, str]:
        return self._known_images() | {image.name: image.id for image in loaded}

    def _record(self) -> Record:
        try:
            raw = json.loads(self.layout.record.read_text())
        except FileNotFoundError:
            raise ClusterDown(self.layout.instance) from None
        specs = tuple(NodeSpec(**spec) for spec in raw["nodes"])
        return Record(specs, raw["programs"], raw["images"])

    def _write_record(self, record: Record) -> None:
        temporary = self.layout.record.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(record), indent=2))
        temporary.rename(self.layout.record)


def _specs(nodes: int, zones: Sequence[str]) -> tuple[NodeSpec, ...]:
    if not 1 <= nodes <= MAX_NODES:
        raise ValueError(f"nodes must be 1 to {MAX_NODES}, not {nodes}")
    return tuple(
        NodeSpec(name=f"n{index}", index=index, zone=zones[(index - 1) % len(zones)])
        for index in range(1, nodes + 1)
    )


def _paths(programs: Programs) -> dict[str, str]:
    return {name: str(path) for name, path in programs.paths.items()}
