"""Where everything of one cluster is: names, addresses, ports and folders.

All of it follows from the instance number, so that several clusters can exist on one machine and
`down` can find what an `up` left behind even when that `up` was killed before it wrote anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MAX_INSTANCE = 20  # the second octet of an address holds 200 + instance
MAX_NODES = 30
STATE_ROOT = Path("/var/lib/rtj-localcluster")
LOCK_ROOT = Path("/run/lock")


def cache_root() -> Path:
    """Folder for what is slow to make and safe to delete: programs and images."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rtj"


@dataclass(frozen=True)
class Layout:
    """Names, addresses and paths of one instance."""

    instance: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.instance <= MAX_INSTANCE:
            raise ValueError(f"instance must be 0 to {MAX_INSTANCE}, not {self.instance}")

    # Names on the host. Interface names are limited to 15 characters.
    @property
    def prefix(self) -> str:
        return f"rtj{self.instance}"

    @property
    def bridge(self) -> str:
        return f"{self.prefix}-br"

    @property
    def control_group(self) -> str:
        return f"{self.prefix}-control"

    def node_key(self, node: str) -> str:
        """Name of the node's network namespace, of its cgroup and of its link on the host."""
        return f"{self.prefix}-{node}"

    # Addresses: one flat network for host, nodes and pods.
    @property
    def subnet(self) -> str:
        return f"10.{200 + self.instance}.0.0/16"

    @property
    def host_ip(self) -> str:
        return f"10.{200 + self.instance}.0.1"

    def node_ip(self, index: int) -> str:
        return f"10.{200 + self.instance}.{index}.1"

    def pod_range(self, index: int) -> tuple[str, str]:
        base = f"10.{200 + self.instance}.{index}"
        return f"{base}.10", f"{base}.250"

    @property
    def service_cidr(self) -> str:
        return f"10.{100 + self.instance}.0.0/16"

    @property
    def service_ip(self) -> str:
        """ClusterIP of the Service `kubernetes`: the first of the range."""
        return f"10.{100 + self.instance}.0.1"

    def _port(self, offset: int) -> int:
        return 26400 + self.instance * 10 + offset

    @property
    def api_port(self) -> int:
        return self._port(0)

    @property
    def etcd_port(self) -> int:
        return self._port(1)

    @property
    def etcd_peer_port(self) -> int:
        return self._port(2)

    @property
    def controller_port(self) -> int:
        return self._port(3)

    @property
    def scheduler_port(self) -> int:
        return self._port(4)

    @property
    def dns_ready_port(self) -> int:
        return self._port(5)

    # Folders.
    @property
    def state(self) -> Path:
        return STATE_ROOT / str(self.instance)

    @property
    def lock(self) -> Path:
        return LOCK_ROOT / f"rtj-localcluster-{self.instance}.lock"

    @property
    def control(self) -> Path:
        return self.state / "control"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    def node(self, name: str) -> Path:
        return self.state / "nodes" / name

    @property
    def shared(self) -> Path:
        """Folder that every node sees; it stands for a shared file system such as FSx."""
        return self.state / "shared"

    @property
    def kubeconfig(self) -> Path:
        return self.state / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.control / "audit.log"

    @property
    def record(self) -> Path:
        """What the cluster was started with; written last, so its presence means a whole `up`."""
        return self.state / "cluster.json"
