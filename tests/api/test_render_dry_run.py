"""A real server takes what is rendered, every field of it."""

import json

import pytest

from rtj_operator.render.objects import JobRef
from tests.api.support.kubectl import Kubectl
from tests.unit.render import golden


@pytest.mark.parametrize("instance_type", golden.INSTANCE_TYPES)
def test_golden_manifests_are_valid_to_the_last_field(
    kubectl: Kubectl, namespace: str, instance_type: str
) -> None:
    job = JobRef(namespace=namespace, name="llama", uid=golden.JOB.uid)
    children = golden.manifests(instance_type, job)
    done = kubectl(
        "create", "--dry-run=server", "--validate=strict", "-f", "-",
        stdin="\n---\n".join(json.dumps(child) for child in children),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("created") == len(children)


@pytest.mark.parametrize("instance_type", golden.INSTANCE_TYPES)
def test_restricted_namespace_admits_workers_and_coordinator_of_a_restricted_template(
    kubectl: Kubectl, namespace: str, instance_type: str
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    assert kubectl("label", "namespace", namespace, label).returncode == 0
    job = JobRef(namespace=namespace, name="llama", uid=golden.JOB.uid)
    for pod in golden.manifests(instance_type, job)[:2]:
        done = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
        assert done.returncode == 0, done.stderr
