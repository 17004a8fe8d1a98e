"""What the leading operator says of itself."""

import re

from demo.kube import Kube
from demo.setup import OPERATOR_NAMESPACE

METRICS_PORT = 9090
RSS = re.compile(r"^process_resident_memory_bytes (\S+)$", re.MULTILINE)


def memory_mb(kube: Kube) -> float:
    """Largest resident set of the operator's replicas, in MB (10^6 bytes)."""
    names = kube.run(
        "kubectl",
        "-n",
        OPERATOR_NAMESPACE,
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ).split()
    sizes: list[float] = []
    for name in names:
        path = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{name}:{METRICS_PORT}/proxy/metrics"
        # A replica on a dead node is listed until Kubernetes gives it up.
        found = RSS.search(kube.run("kubectl", "get", "--raw", path, check=False))
        if found:
            sizes.append(float(found[1]) / 1e6)
    return max(sizes)
