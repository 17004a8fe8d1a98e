"""What the operator's account may do beyond what RBAC can say: its own taint and annotations on
nodes, pods of its own jobs. Asked of the real API server by impersonation."""

import json
from collections.abc import Generator
from typing import Any

import pytest

from rtj_api import names
from tests.api.conftest import ACCOUNT, OPERATOR_NAMESPACE
from tests.api.support.kubectl import Kubectl
from tests.api.support.waits import until_sync

OPERATOR = f"--as=system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
NODE = "admission-node"
TAINT = {"key": names.TAINT_FAULTY, "value": "x", "effect": "NoSchedule"}
FOREIGN = {"key": "other/owner", "value": "x", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def node(kubectl: Kubectl) -> Generator[str]:
    """A node with a foreign taint, label and annotation, once the policies are in force."""
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {"pool": "gpu"}, "annotations": {"other/a": "1"}},
    }
    made = kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert made.returncode == 0, made.stderr
    # Without the taint that the server gives to every new node.
    only = json.dumps(tainted(FOREIGN))
    done = kubectl("patch", "node", NODE, "--type=merge", f"--patch={only}")
    assert done.returncode == 0, done.stderr
    until_sync(
        "the policies are in force",
        lambda: patched(kubectl, {"metadata": {"labels": {"pool": "x"}}}) != "",
    )
    yield NODE
    kubectl("delete", "node", NODE)


def patched(kubectl: Kubectl, patch: dict[str, Any]) -> str:
    """Empty when the operator's patch of the node would be taken; else what kubectl said."""
    done = kubectl(
        "patch", "node", NODE, "--type=merge", f"--patch={json.dumps(patch)}",
        "--dry-run=server", OPERATOR,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr


def annotated(**annotations: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def tainted(*taints: dict[str, str]) -> dict[str, Any]:
    return {"spec": {"taints": [*taints]}}


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(tainted(FOREIGN, TAINT), id="its taint"),
        pytest.param(annotated(**{f"{names.GROUP}/strikes": "1"}), id="an annotation of its own"),
    ],
)
@pytest.mark.usefixtures("node")
def test_operator_may_write_its_own_on_nodes(kubectl: Kubectl, patch: dict[str, Any]) -> None:
    assert patched(kubectl, patch) == ""


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param(tainted(), "taint resilience.training/faulty only", id="removes a taint"),
        pytest.param(
            tainted(FOREIGN, {**TAINT, "key": "mine"}),
            "taint resilience.training/faulty only",
            id="sets another taint",
        ),
        pytest.param(
            tainted(FOREIGN, {**TAINT, "effect": "NoExecute"}), "not evict any", id="evicts"
        ),
        pytest.param({"metadata": {"labels": {"new": "1"}}}, "no label", id="sets a label"),
        pytest.param({"metadata": {"labels": {"pool": None}}}, "no label", id="removes a label"),
        pytest.param(annotated(other="1"), "begin with", id="sets an annotation"),
        pytest.param(annotated(**{"other/a": "2"}), "begin with", id="changes an annotation"),
        pytest.param(annotated(**{"other/a": None}), "begin with", id="removes an annotation"),
        pytest.param({"spec": {"unschedulable": True}}, "neither cordon", id="cordons"),
    ],
)
@pytest.mark.usefixtures("node")
def test_operator_may_change_nothing_else_of_a_node(
    kubectl: Kubectl, patch: dict[str, Any], want: str
) -> None:
    assert want in patched(kubectl, patch)


def test_others_may_label_nodes(kubectl: Kubectl, node: str) -> None:
    done = kubectl("label", "node", node, "new=1", "--dry-run=server")
    assert done.returncode == 0, done.stderr


def a_pod(name: str, kind: str | None) -> str:
    """A pod whose controller is of that kind."""
    owner = {
        "apiVersion": names.API_VERSION if kind == names.KIND else "apps/v1",
        "kind": kind,
        "name": "a",
        "uid": "8d1b1bd5-8e4e-4e0e-9d3c-000000000000",
        "controller": True,
    }
    owners = [owner] if kind else []
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": owners},
            "spec": {"containers": [{"name": "c", "image": "example.invalid/c:1"}]},
        }
    )


@pytest.mark.parametrize(
    ("where", "kind", "want"),
    [
        pytest.param("default", names.KIND, "", id="of a job"),
        pytest.param("default", "ReplicaSet", "of a ResilientTrainingJob only", id="another's"),
        pytest.param("default", None, "of a ResilientTrainingJob only", id="of nobody"),
        pytest.param("kube-system", names.KIND, "no pod in kube-system", id="in kube-system"),
    ],
)
@pytest.mark.usefixtures("node")
def test_operator_may_create_pods(
    kubectl: Kubectl, where: str, kind: str | None, want: str
) -> None:
    done = kubectl(
        "create", "-n", where, "-f", "-", "--dry-run=server", OPERATOR, stdin=a_pod("p", kind)
    )
    assert (done.returncode == 0) is (want == "")
    assert want in done.stderr


@pytest.mark.usefixtures("node")
def test_operator_may_delete_no_pod_of_others(kubectl: Kubectl, namespace: str) -> None:
    made = kubectl("create", "-n", namespace, "-f", "-", stdin=a_pod("p", "ReplicaSet"))
    assert made.returncode == 0, made.stderr
    done = kubectl("delete", "pod", "p", "-n", namespace, "--dry-run=server", OPERATOR)
    assert "create and delete pods of a ResilientTrainingJob only" in done.stderr
