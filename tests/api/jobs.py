"""The smallest job that the server accepts, and how to change it."""

import copy
import json
from typing import Any

Job = dict[str, Any]

_JOB: Job = {
    "apiVersion": "resilience.training/v1alpha1",
    "kind": "ResilientTrainingJob",
    "metadata": {"name": "job"},
    "spec": {
        "nodes": 2,
        "instanceType": "cpu",
        "template": {
            "spec": {
                "containers": [
                    {"name": "trainer", "image": "example/llama:1", "args": ["train.py"]}
                ]
            }
        },
    },
}


def a_job(**fields: Any) -> Job:
    """A job with fields at dotted paths, written with `__` for the dot: spec__nodes=3."""
    job = copy.deepcopy(_JOB)
    for path, value in fields.items():
        *parents, last = path.split("__")
        part = job
        for name in parents:
            part = part.setdefault(name, {})
        part[last] = value
    return job


def a_trainer(**fields: Any) -> list[Job]:
    """The template's containers with fields of the trainer replaced; None takes one away."""
    container: Job = _JOB["spec"]["template"]["spec"]["containers"][0] | fields
    return [{name: value for name, value in container.items() if value is not None}]


def as_json(job: Job) -> str:
    """What kubectl reads."""
    return json.dumps(job)
