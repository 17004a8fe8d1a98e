"""All that is made for a job of each kind of machine, compared byte for byte with golden/.

python -m tests.unit.render.golden --write
"""

import json
from pathlib import Path
from typing import Final

import yaml

from rtj_api import auth
from rtj_operator.render import network_policy, pods, secret, services
from rtj_operator.render.objects import JobRef, Manifest
from tests import golden
from tests.unit.render.builders import JOB, a_container, a_profile, a_spec, a_template

FOLDER: Final = Path(__file__).parent / "golden"
INSTANCE_TYPES: Final = ("p5.48xlarge", "cpu")
PEERS: Final = network_policy.Peers(
    operator_namespace="rtj-system",
    operator_labels={"app.kubernetes.io/name": "resilient-training-operator"},
    metrics_namespace="monitoring",
)


def manifests(instance_type: str, job: JobRef = JOB) -> list[Manifest]:
    """Every child of a job with a checkpoint volume, a zone and a node excluded."""
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec = a_spec(
        a_template(a_container(securityContext=restricted)),
        nodes=8,
        spares=1,
        instanceType=instance_type,
        storage={"checkpoints": {"claimName": "checkpoints"}},
    )
    profile = a_profile(instance_type)
    zone, excluded = "us-east-1a", ("node-b", "node-a")
    return [
        pods.worker_pod(
            job, spec, profile, slot=3, incarnation=1, zone=zone, excluded_nodes=excluded
        ),
        pods.coordinator_pod(job, spec, profile, incarnation=2, zone=zone, excluded_nodes=excluded),
        services.coordinator_service(job, 2),
        services.workers_service(job),
        network_policy.network_policy(job, PEERS),
        secret.key_secret(job, auth.job_key(b"master", job.uid)),
    ]


def text(instance_type: str) -> str:
    """The manifests as YAML."""
    # Through JSON: what is shared between objects in memory is written out, as on the wire.
    plain = json.loads(json.dumps(manifests(instance_type)))
    return yaml.safe_dump_all(plain, sort_keys=True, width=100)


def path(instance_type: str) -> Path:
    """Where the golden file is."""
    return FOLDER / f"{instance_type}.yaml"


if __name__ == "__main__":
    golden.rewrite(__doc__, {path(case): text(case) for case in INSTANCE_TYPES})
