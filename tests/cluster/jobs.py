"""Manifests of the cluster suite: examples/demo.yaml with what a test changes."""

import copy
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
STORAGE = "checkpoints"


def demo_job(name: str, *, steps: int = 60, **spec: Any) -> dict[str, Any]:
    """The demo's job under another name; keywords replace fields of its spec."""
    job = copy.deepcopy(yaml.safe_load((EXAMPLES / "demo.yaml").read_text()))
    job["metadata"]["name"] = name
    job["spec"]["storage"]["checkpoints"]["claimName"] = STORAGE
    job["spec"] |= spec
    set_args(job, "-m", "rtj_trainer.reference", f"--steps={steps}", "--step-seconds=0.3",
             "--save-every=5")  # fmt: skip
    return job


def trainer(job: dict[str, Any]) -> dict[str, Any]:
    """The trainer container of a job's template."""
    return job["spec"]["template"]["spec"]["containers"][0]


def set_args(job: dict[str, Any], *args: str) -> None:
    """What the trainer container runs."""
    trainer(job)["args"] = list(args)


def storage(namespace: str, folder: Path) -> list[dict[str, Any]]:
    """Volume and claim of a namespace, in a folder that every node sees."""
    volume, claim = yaml.safe_load_all((EXAMPLES / "local-storage.yaml").read_text())
    volume["metadata"]["name"] = f"{namespace}-{STORAGE}"
    volume["spec"]["claimRef"] = {"namespace": namespace, "name": STORAGE}
    volume["spec"]["hostPath"]["path"] = str(folder / namespace)
    claim["metadata"]["name"] = STORAGE
    claim["spec"]["volumeName"] = f"{namespace}-{STORAGE}"
    return [volume, claim]
