"""From a bare machine to a cluster that runs the operator."""

from dataclasses import dataclass
from pathlib import Path

from demo import faults
from demo.kube import Kube
from localcluster.cluster import Cluster

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "resilient-training-operator"
EXAMPLES = ROOT / "examples"
OPERATOR_NAMESPACE = "rtj-system"
RELEASE = "rtj"


def install_operator(kube: Kube) -> None:
    """helm install the chart with the local image and wait until it is ready."""
    kube.run(
        "helm", "upgrade", "--install", RELEASE, str(CHART),
        "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
        "--set", "image.repository=localhost/rtj-operator",
        "--set", "image.tag=dev",
        "--wait", "--timeout", "120s",
    )  # fmt: skip


def install_storage(kube: Kube, cluster: Cluster) -> None:
    """A volume that stands for FSx for Lustre: one folder of this machine, seen by all nodes."""
    manifest = (EXAMPLES / "local-storage.yaml").read_text()
    kube.kubectl(
        "apply", "-f", "-", stdin=manifest.replace("/var/lib/rtj-demo", str(cluster.shared_dir))
    )
    bound = "--for=jsonpath={.status.phase}=Bound"
    kube.kubectl("wait", "pvc/demo-checkpoints", bound, "--timeout=60s")


@dataclass(frozen=True, slots=True)
class Leader:
    """The operator's leading replica."""

    pod: str
    node: str


def leader(kube: Kube) -> Leader | None:
    """Who holds the lease; None while nobody does."""
    at = ("kubectl", "-n", OPERATOR_NAMESPACE, "get")
    holder = kube.run(*at, "lease", "-o", "jsonpath={.items[*].spec.holderIdentity}")
    row = "{range .items[*]}{.metadata.name} {.spec.nodeName}{'\\n'}{end}"
    for line in kube.run(*at, "pods", "-o", f"jsonpath={row}").splitlines():
        pod, _, node = line.partition(" ")
        if holder.startswith(pod):
            return Leader(pod, node)
    return None


def rank_away_from_leader(kube: Kube, job: str) -> int:
    """A rank, as high as possible, whose node does not carry the operator's leader too.

    On EKS the operator runs on nodes without GPUs; here it shares the four. A leader that dies with
    the node delays what is written into status by the lease's 15 s, and nothing else.
    """
    leading = leader(kube)
    node = leading.node if leading else ""
    return max(rank.rank for rank in faults.ranks(kube, job) if rank.node != node)
