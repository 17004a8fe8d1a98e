"""Manifests of jobs, and where their children are."""

from typing import Any

from tests.api.support.api import RTJ, Json

IMAGE = "example.invalid/trainer:1"


def job(namespace: str, name: str, **spec: Any) -> Json:
    """A small job on CPU, without a standby coordinator; `spec` adds to it or overrides it."""
    return {
        "apiVersion": "resilience.training/v1alpha1",
        "kind": "ResilientTrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodes": 2,
            "instanceType": "cpu",
            "resilience": {"coordinator": {"standby": False}},
            "template": {
                "spec": {
                    "containers": [
                        {"name": "trainer", "image": IMAGE, "command": ["python", "train.py"]}
                    ]
                }
            },
            **spec,
        },
    }


def jobs(namespace: str, name: str = "", subresource: str = "") -> str:
    """Path of jobs."""
    return _path(f"{RTJ}/namespaces/{namespace}/resilienttrainingjobs", name, subresource)


def core(namespace: str, plural: str, name: str = "", subresource: str = "") -> str:
    """Path of pods, services and other objects of the core group."""
    return _path(f"/api/v1/namespaces/{namespace}/{plural}", name, subresource)


def policies(namespace: str, name: str = "") -> str:
    """Path of NetworkPolicies."""
    return _path(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", name, "")


def _path(*parts: str) -> str:
    return "/".join(part for part in parts if part)
