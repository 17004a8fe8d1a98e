"""Manifests in pages and examples are ones that the CRD's schema and the models accept."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from rtj_api import names
from rtj_api.crd import definition
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render import pods, profiles
from rtj_operator.render.objects import JobRef
from tests.unit.docs.pages import PAGES, ROOT, page

SCHEMA: Final[dict[str, Any]] = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
TYPES: Final = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def problems(value: Any, schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """What the API server would say: unknown and missing fields, wrong types and values."""
    kind = TYPES.get(schema.get("type", ""))
    if kind is not None and not isinstance(value, kind):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get(
        "maximum", value
    ):
        yield f"{at}: {value} is out of range"
    if isinstance(value, list):
        for item in value:
            yield from problems(item, schema["items"], f"{at}[]")
    if isinstance(value, dict):
        yield from fields(value, schema, at)


def fields(value: dict[str, Any], schema: dict[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}.{name}: is missing"
    for name, inner in value.items():
        if known is None:
            if "additionalProperties" in schema:
                yield from problems(inner, schema["additionalProperties"], f"{at}.{name}")
        elif at == "" and name == "metadata":
            continue  # of every object, not of this schema
        elif name not in known:
            yield f"{at}.{name}: is no field"
        else:
            yield from problems(inner, known[name], f"{at}.{name}")


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    texts = [(found.name, block) for found in PAGES for block in found.blocks("yaml")]
    texts += [(path.name, path.read_text()) for path in sorted((ROOT / "examples").glob("*.yaml"))]
    for name, text in texts:
        for document in yaml.safe_load_all(text):
            yield name, document


MANIFESTS: Final = tuple(manifests())
JOBS: Final = [(name, it) for name, it in MANIFESTS if it.get("kind") == names.KIND]


def test_pages_and_examples_show_jobs() -> None:
    assert {name for name, _ in JOBS} >= {"README.md", "demo.yaml", "p5.yaml"}


@pytest.mark.parametrize(("name", "manifest"), MANIFESTS)
def test_every_manifest_names_what_it_is(name: str, manifest: dict[str, Any]) -> None:
    assert {"apiVersion", "kind", "metadata"} <= manifest.keys()
    assert manifest["metadata"]["name"]


@pytest.mark.parametrize(("name", "manifest"), JOBS)
def test_jobs_are_accepted(name: str, manifest: dict[str, Any]) -> None:
    assert manifest["apiVersion"] == names.API_VERSION
    assert list(problems(manifest, SCHEMA)) == []
    spec = ResilientTrainingJobSpec.model_validate(manifest["spec"])
    profile = profiles.find(spec.instance_type)
    assert profile is not None
    job = JobRef(namespace="default", name=manifest["metadata"]["name"], uid="uid")
    assert pods.worker_pod(job, spec, profile, slot=0, incarnation=0)["kind"] == "Pod"


@pytest.mark.parametrize("role", ["worker", "coordinator"])
def test_the_pod_monitor_finds_every_pod_of_a_job(role: str) -> None:
    (monitor,) = (it["spec"] for name, it in MANIFESTS if name == "podmonitor.yaml")
    spec = ResilientTrainingJobSpec.model_validate(JOBS[0][1]["spec"])
    profile = profiles.find(spec.instance_type)
    assert profile is not None
    job = JobRef(namespace="default", name="it", uid="uid")
    if role == "worker":
        pod = pods.worker_pod(job, spec, profile, slot=0, incarnation=0)
    else:
        pod = pods.coordinator_pod(job, spec, profile, incarnation=0)
    labels = {rule["key"] for rule in monitor["selector"]["matchExpressions"]}
    assert {*labels, *monitor["podTargetLabels"]} <= pod["metadata"]["labels"].keys()
    ports = {
        port["name"]: port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    }
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert ports[endpoint["port"]] == names.PORT_METRICS


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"spare": 1}, ".spec.spare: is no field"),
        ({"nodes": "8"}, ".spec.nodes: '8' is no integer"),
        ({"nodes": 0}, ".spec.nodes: 0 is out of range"),
        ({"remediation": "no"}, ".spec.remediation: 'no' is none of ['enforce', 'observe']"),
        ({"storage": {"checkpoints": {}}}, ".spec.storage.checkpoints.claimName: is missing"),
        (
            {"template": {"spec": {"containers": [{"name": "trainer", "imgae": "i"}]}}},
            ".spec.template.spec.containers[].imgae: is no field",
        ),
    ],
)
def test_a_wrong_field_would_be_found(change: dict[str, Any], want: str) -> None:
    manifest = dict(JOBS[0][1])
    manifest["spec"] = manifest["spec"] | change
    assert list(problems(manifest, SCHEMA)) == [want]


def test_the_readmes_job_has_ten_lines() -> None:
    (block,) = page("README.md").blocks("yaml")
    assert len(block.splitlines()) <= 10
