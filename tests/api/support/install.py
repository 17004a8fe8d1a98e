"""Our CRD, and the rights that the chart gives to the operator, on an API server."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rtj_api import crd
from tests.api.support.server import ApiServer

CHART = Path(__file__).parents[3] / "charts" / "resilient-training-operator"
OPERATOR_NAMESPACE = "rtj-system"
ACCOUNT = "rtj-resilient-training-operator"


def install(server: ApiServer) -> None:
    """Return when the CRD is served."""
    kubectl = [str(server.program("kubectl"))]
    kubectl.append(f"--kubeconfig={server.kubeconfig(server.admin_token, 'admin')}")
    _run([*kubectl, "create", "namespace", OPERATOR_NAMESPACE])
    # As the models are now; that the file is current is checked elsewhere.
    _run([*kubectl, "apply", "--server-side", "-f", "-"], crd.render().encode())
    rights = _run(
        [
            str(server.program("helm")),
            "template",
            "rtj",
            str(CHART),
            f"--namespace={OPERATOR_NAMESPACE}",
            # Helm alone would take the cluster for the oldest that it knows.
            "--kube-version=1.34.0",
            "--show-only=templates/rbac.yaml",
            "--show-only=templates/admission.yaml",
            "--show-only=templates/serviceaccount.yaml",
        ]
    )
    _run([*kubectl, "apply", "-f", "-"], rights)
    name = crd.definition()["metadata"]["name"]
    _run([*kubectl, "wait", "--for=condition=Established", f"crd/{name}"])


def _run(command: Sequence[str], given: bytes = b"") -> bytes:
    """Run to the end; complaints are shown, the output is returned."""
    return subprocess.run(command, input=given, check=True, stdout=subprocess.PIPE).stdout
