"""From a bare machine to a cluster that runs the operator."""

from pathlib import Path

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
