"""What the chart renders for two sets of values, compared with golden/.

    python -m tests.api.chart_golden --write

The CRD is checked elsewhere and the master key is new at every rendering: both are left out.
"""

import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from localcluster import programs
from tests import golden

CHART: Final = Path(__file__).parents[2] / "charts" / "resilient-training-operator"
FOLDER: Final = Path(__file__).parent / "golden"
NAMESPACE: Final = "rtj-system"
TIMEOUT_SECONDS: Final = 60.0
# Name of the golden file -> values.
CASES: Final = {
    "chart-default": (),
    "chart-namespaced": (
        "watchNamespaces={team-a,team-b}",
        "metricsNamespace=monitoring",
        "metrics.serviceMonitor.enabled=true",
        "masterKey.existingSecret=my-key",
        "priorityClass.create=true",
        "replicaCount=1",
        "image.repository=example/rtj-operator",
        "image.tag=1.2.3",
        "imagePullSecrets[0].name=pull",
        "serviceAccount.annotations.team=platform",
        "extraEnv[0].name=HTTPS_PROXY",
        "extraEnv[0].value=http://proxy:3128",
        "tolerations[0].operator=Exists",
        "nodeSelector.pool=system",
    ),
}


def helm(*args: str) -> subprocess.CompletedProcess[str]:
    """helm without a cluster."""
    return subprocess.run(
        [programs.ensure()["helm"], *args],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def template(*values: str, kube_version: str = "1.34.0") -> subprocess.CompletedProcess[str]:
    """`helm template` with some values."""
    settings = [part for value in values for part in ("--set", value)]
    # Without a cluster helm takes it for the oldest one that it knows.
    where = ("--namespace", NAMESPACE, "--kube-version", kube_version)
    return helm("template", "rtj", str(CHART), *where, *settings)


def text(case: str) -> str:
    """The manifests of a case in the order of their kinds and names."""
    done = template(*CASES[case])
    if done.returncode:
        raise RuntimeError(done.stderr)
    documents: list[dict[str, Any]] = [
        document
        for document in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
        if document and document["kind"] != "CustomResourceDefinition"
    ]
    for document in documents:
        if document["kind"] == "Secret":
            document["data"] = dict.fromkeys(document["data"], "...")
    documents.sort(key=lambda document: (document["kind"], document["metadata"]["name"]))
    return yaml.safe_dump_all(documents, sort_keys=True, width=100)


def path(case: str) -> Path:
    """Where the golden file is."""
    return FOLDER / f"{case}.yaml"


if __name__ == "__main__":
    golden.rewrite(__doc__, {path(case): text(case) for case in CASES})
