"""The chart: what it renders, what it refuses, what it keeps, and the rights that it gives."""

import json
import secrets

import pytest

from rtj_api import names
from tests.api import chart_golden
from tests.api.chart_golden import CHART
from tests.api.support.kubectl import Kubectl

RELEASE = "rtj"
JOBS = f"{names.PLURAL}.{names.GROUP}"


def test_helm_finds_nothing_to_complain_about() -> None:
    done = chart_golden.helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", chart_golden.CASES)
def test_manifests_are_the_golden_ones(case: str) -> None:
    want = chart_golden.path(case).read_text(encoding="utf-8")
    assert chart_golden.text(case) == want, (
        "read the difference; if it is meant: python -m tests.api.chart_golden --write"
    )


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("image.tagg=1", "'tagg' not allowed", id="misspelt value"),
        pytest.param("replicaCount=0", "/replicaCount", id="no replica"),
        pytest.param("logLevel=loud", "/logLevel", id="no such level"),
        pytest.param("probes.port=9090", "probes.port and metrics.port", id="one port twice"),
        pytest.param("watchNamespaces={Team A}", "/watchNamespaces/0", id="no namespace's name"),
    ],
)
def test_bad_value_is_refused_by_its_name(value: str, want: str) -> None:
    done = chart_golden.template(value)
    assert done.returncode != 0
    assert want in done.stderr


def test_admission_policies_are_left_out_when_asked_and_where_they_are_not_served() -> None:
    policies = "kind: ValidatingAdmissionPolicy"
    assert policies in chart_golden.template().stdout
    assert policies not in chart_golden.template("admissionPolicies.enabled=false").stdout
    older = chart_golden.template(kube_version="1.29.0")
    assert older.returncode == 0, older.stderr
    assert policies not in older.stdout


def test_crd_is_left_out_when_asked() -> None:
    assert "kind: CustomResourceDefinition" in chart_golden.template().stdout
    assert (
        "kind: CustomResourceDefinition" not in chart_golden.template("crds.enabled=false").stdout
    )


def install(kubectl: Kubectl, namespace: str, *flags: str) -> None:
    """A release whose objects are named after the namespace, apart from those of other tests."""
    # The CRD was applied by kubectl before.
    over = ("--take-ownership", "--force-conflicts", "--set", f"fullnameOverride={namespace}")
    where = ("--namespace", namespace, *over, *flags)
    done = kubectl.run("helm", "upgrade", "--install", RELEASE, str(CHART), *where)
    assert done.returncode == 0, done.stderr


def master_key(kubectl: Kubectl, namespace: str) -> str:
    done = kubectl(
        "get", "secret", f"{namespace}-master-key", "-n", namespace, "-o", "jsonpath={.data.key}"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jobs_and_master_key_outlive_upgrade_uninstall_and_reinstall(
    kubectl: Kubectl, namespace: str
) -> None:
    install(kubectl, namespace)
    first = master_key(kubectl, namespace)
    install(kubectl, namespace, "--set", "logLevel=debug")
    assert master_key(kubectl, namespace) == first
    gone = kubectl.run("helm", "uninstall", RELEASE, "--namespace", namespace)
    assert gone.returncode == 0, gone.stderr
    assert kubectl("get", "crd", JOBS).returncode == 0
    assert master_key(kubectl, namespace) == first
    install(kubectl, namespace)
    assert master_key(kubectl, namespace) == first


def test_release_stays_far_below_the_limit_of_a_secret(kubectl: Kubectl, installed: str) -> None:
    name = f"sh.helm.release.v1.{RELEASE}.v1"
    stored = kubectl("get", "secret", name, "-n", installed, "-o", "json").stdout
    assert len(stored) < 400_000


@pytest.fixture(scope="module")
def installed(kubectl: Kubectl) -> str:
    """Namespace and name of a release with the chart's own values."""
    name = f"chart-{secrets.token_hex(4)}"
    made = kubectl("create", "namespace", name)
    assert made.returncode == 0, made.stderr
    install(kubectl, name)
    return name


def can(kubectl: Kubectl, user: str, namespace: str, verb: str, resource: str) -> bool:
    kind, _, subresource = resource.partition("/")
    asked = (verb, kind, f"--subresource={subresource}", "-n", namespace, f"--as={user}")
    done = kubectl("auth", "can-i", *asked)
    assert done.stdout.strip() in ("yes", "no"), done.stderr
    return done.stdout.strip() == "yes"


@pytest.mark.parametrize(
    ("role", "verb", "resource", "want"),
    [
        pytest.param("edit", "create", JOBS, True, id="editor creates jobs"),
        pytest.param("edit", "patch", f"{JOBS}/status", False, id="editor writes no status"),
        pytest.param("view", "list", JOBS, True, id="viewer sees jobs"),
        pytest.param("view", "create", JOBS, False, id="viewer creates none"),
    ],
)
def test_people_may(
    kubectl: Kubectl, installed: str, role: str, verb: str, resource: str, want: bool
) -> None:
    user = f"{role}-{verb}"
    bound = kubectl(
        "create", "rolebinding", user, f"--clusterrole={installed}-{role}", f"--user={user}",
        "-n", installed,
    )  # fmt: skip
    assert bound.returncode == 0, bound.stderr
    assert can(kubectl, user, installed, verb, resource) is want


OPERATOR_MAY = [
    pytest.param("patch", f"{JOBS}/status", True, id="writes a job's status"),
    pytest.param("create", "pods", True, id="creates pods"),
    pytest.param("create", "secrets", True, id="creates the job's key"),
    pytest.param("patch", "nodes", True, id="taints nodes"),
    pytest.param("get", "secrets", False, id="reads no Secret"),
    pytest.param("list", "secrets", False, id="lists no Secret"),
    pytest.param("patch", JOBS, False, id="changes no job's spec"),
    pytest.param("patch", "pods", False, id="changes no pod"),
    pytest.param("patch", "networkpolicies", True, id="puts the job's policy right"),
    pytest.param("create", "pods/exec", False, id="runs nothing in pods"),
    pytest.param("delete", "nodes", False, id="deletes no node"),
    pytest.param("update", "persistentvolumeclaims", False, id="changes no claim"),
]


@pytest.mark.parametrize(("verb", "resource", "want"), OPERATOR_MAY)
def test_operator_may(
    kubectl: Kubectl, installed: str, verb: str, resource: str, want: bool
) -> None:
    account = f"system:serviceaccount:{installed}:{installed}"
    assert can(kubectl, account, installed, verb, resource) is want


def test_operator_of_some_namespaces_may_nothing_in_others(
    kubectl: Kubectl, namespace: str
) -> None:
    install(kubectl, namespace, "--set", f"watchNamespaces={{{namespace}}}")
    account = f"system:serviceaccount:{namespace}:{namespace}"
    assert can(kubectl, account, namespace, "create", "pods") is True
    assert can(kubectl, account, "default", "create", "pods") is False
    assert can(kubectl, account, "default", "list", "nodes") is True


def test_operator_is_restricted_enough_for_the_restricted_level(
    kubectl: Kubectl, installed: str
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    assert kubectl("label", "namespace", installed, label).returncode == 0
    shown = kubectl("get", "deployment", installed, "-n", installed, "-o", "json")
    template = json.loads(shown.stdout)["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {"name": "operator", "namespace": installed}
    done = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    assert done.returncode == 0, done.stderr
