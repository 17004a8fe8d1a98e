"""Jobs, specs and templates for the tests of rendering."""

from typing import Any

from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render import pods, profiles
from rtj_operator.render.objects import JobRef, Manifest

JOB = JobRef(namespace="team-a", name="llama", uid="0f3c9a52-6a0e-4d0b-9b3e-6d8f1c2a7e41")


def a_container(**fields: Any) -> Manifest:
    return {"name": "trainer", "image": "example/llama:1", "args": ["train.py"]} | fields


def a_template(container: Manifest | None = None, **pod: Any) -> Manifest:
    return {"spec": {"containers": [a_container() if container is None else container]} | pod}


def a_spec(template: Manifest | None = None, **fields: Any) -> ResilientTrainingJobSpec:
    written = {"nodes": 2, "instanceType": "cpu", "template": template or a_template()} | fields
    return ResilientTrainingJobSpec.model_validate(written)


def a_profile(name: str) -> profiles.Profile:
    profile = profiles.find(name)
    assert profile is not None, name
    return profile


def a_worker(spec: ResilientTrainingJobSpec, **where: Any) -> Manifest:
    where = {"slot": 1, "incarnation": 0} | where
    return pods.worker_pod(JOB, spec, a_profile(spec.instance_type), **where)


def a_coordinator(spec: ResilientTrainingJobSpec, **where: Any) -> Manifest:
    where = {"incarnation": 0} | where
    return pods.coordinator_pod(JOB, spec, a_profile(spec.instance_type), **where)


def trainer_of(pod: Manifest) -> Manifest:
    return next(c for c in pod["spec"]["containers"] if c["name"] == "trainer")


def environment_of(pod: Manifest) -> dict[str, str]:
    return {v["name"]: v["value"] for v in trainer_of(pod)["env"] if "value" in v}
