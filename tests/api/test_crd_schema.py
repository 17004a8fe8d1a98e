"""What the schema gives on a real server: defaults, refusals by name, explain, columns, size."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import CRD
from tests.api.jobs import Job, a_job, a_trainer, as_json
from tests.api.support.kubectl import Kubectl

# This server has no PodMonitor; tests/unit/docs compares that example with the pods.
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples").glob("*.yaml")
    if path.name != "podmonitor.yaml"
)
NAME = "resilienttrainingjobs.resilience.training"


def made(kubectl: Kubectl, namespace: str, job: Job) -> Job:
    done = kubectl("apply", "-n", namespace, "-o", "json", "-f", "-", stdin=as_json(job))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_server_finds_the_schema_structural(kubectl: Kubectl) -> None:
    crd = json.loads(kubectl("get", "crd", NAME, "-o", "json").stdout)
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_client_side_apply_of_the_crd_works_twice(kubectl: Kubectl) -> None:
    for _ in range(2):
        done = kubectl("apply", "-f", str(CRD))
        assert done.returncode == 0, done.stderr


def test_six_lines_of_spec_become_a_whole_one(kubectl: Kubectl, namespace: str) -> None:
    spec = made(kubectl, namespace, a_job())["spec"]
    assert spec["spares"] == 0
    assert spec["suspend"] is False
    assert spec["remediation"] == "enforce"
    assert spec["storage"] == {}
    assert spec["resilience"]["heartbeat"] == {
        "intervalSeconds": 1,
        "timeoutSeconds": 5,
        "rankTimeoutSeconds": 600,
        "initialRankTimeoutSeconds": 1800,
    }
    assert spec["resilience"]["inJob"]["limit"] == 20
    assert spec["resilience"]["progress"]["maxRestartsWithoutProgress"] == 5


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"spec__nodes": 0}, "spec.nodes", id="no nodes"),
        pytest.param({"spec__nodes": -2}, "spec.nodes", id="negative nodes"),
        pytest.param({"spec__nodes": 4097}, "spec.nodes", id="too many nodes"),
        pytest.param({"spec__spares": 65}, "spec.spares", id="too many spares"),
        pytest.param({"spec__processesPerNode": 0}, "spec.processesPerNode", id="no processes"),
        pytest.param({"spec__nodes": "two"}, "spec.nodes", id="a word for a number"),
        pytest.param({"spec__remediation": "maybe"}, "spec.remediation", id="no such choice"),
        pytest.param(
            {"spec__template__spec__containers": a_trainer(ports=[{"containerPort": "x"}])},
            "spec.template.spec.containers[0].ports[0].containerPort",
            id="wrong type deep in the template",
        ),
        pytest.param(
            {"spec__template__spec": None}, "spec.template.spec", id="template without a pod"
        ),
    ],
)
def test_value_out_of_bounds_is_refused_by_its_path(
    kubectl: Kubectl, fields: dict[str, Any], want: str
) -> None:
    job = as_json(a_job(**fields))
    done = kubectl("apply", "--dry-run=server", "--validate=false", "-f", "-", stdin=job)
    assert done.returncode != 0
    assert want in done.stderr


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"spec__nodez": 1}, 'unknown field "spec.nodez"', id="of the job"),
        pytest.param(
            {"spec__resilience__heartbeat__timeout": 3},
            'unknown field "spec.resilience.heartbeat.timeout"',
            id="of a setting",
        ),
        pytest.param(
            {"spec__template__spec__containers": a_trainer(imagePullPolizy="Never")},
            'unknown field "spec.template.spec.containers[0].imagePullPolizy"',
            id="of a container",
        ),
    ],
)
def test_misspelt_field_is_refused_by_its_path(
    kubectl: Kubectl, fields: dict[str, Any], want: str
) -> None:
    done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=as_json(a_job(**fields)))
    assert done.returncode != 0
    assert want in done.stderr


def test_pasted_template_with_an_empty_creation_time_is_taken(kubectl: Kubectl) -> None:
    job = as_json(a_job(spec__template__metadata__creationTimestamp=None))
    done = kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=job)
    assert done.returncode == 0, done.stderr


def test_explain_reaches_the_leaves_of_the_template(kubectl: Kubectl) -> None:
    path = "rtj.spec.template.spec.containers.resources.limits"
    done = kubectl("explain", path)
    assert done.returncode == 0, done.stderr
    assert "Limits describes" in done.stdout


def test_columns_show_one_stored_value_each(kubectl: Kubectl, namespace: str) -> None:
    made(kubectl, namespace, a_job())
    status: Job = {
        "phase": "Running",
        "reason": "Training",
        "run": 2,
        "workers": {"summary": "2/2", "spares": 1},
        "progress": {"step": 41200},
        "restarts": {"summary": "3/2/1/1/0"},
        "lastFault": {"summary": "NodeLost (n7)"},
        "goodput": {"summary": "97.8%"},
    }
    patch = json.dumps({"status": status})
    where = ("-n", namespace)
    done = kubectl(
        "patch", "rtj", "job", *where, "--subresource=status", "--type=merge", "-p", patch
    )
    assert done.returncode == 0, done.stderr
    header, row = kubectl("get", "rtj", *where).stdout.splitlines()
    columns = "PHASE WORKERS SPARES STEP RESTARTS LAST FAULT GOODPUT REASON AGE"
    assert " ".join(header.split()) == f"NAME {columns}"
    values = "Running 2/2 1 41200 3/2/1/1/0 NodeLost (n7) 97.8% Training"
    assert " ".join(row.split()).startswith(f"job {values}")
    assert "RUN" in kubectl("get", "rtj", *where, "-o", "wide").stdout
    running = kubectl("get", "rtj", *where, "--field-selector=status.phase=Running", "-o=name")
    assert running.stdout.strip() == "resilienttrainingjob.resilience.training/job"


def test_status_is_changed_through_its_subresource_only(kubectl: Kubectl, namespace: str) -> None:
    made(kubectl, namespace, a_job())
    changed = made(kubectl, namespace, a_job() | {"status": {"phase": "Complete"}})
    assert "status" not in changed


def test_null_in_a_status_is_taken(kubectl: Kubectl, namespace: str) -> None:
    made(kubectl, namespace, a_job())
    patch = '[{"op": "add", "path": "/status", "value": {"recovery": null, "startTime": null}}]'
    done = kubectl(
        "patch", "rtj", "job", "-n", namespace, "--subresource=status", "--type=json", "-p", patch
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_passes_every_check_of_the_server(kubectl: Kubectl, example: Path) -> None:
    done = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(example))
    assert done.returncode == 0, done.stderr
