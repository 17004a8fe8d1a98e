"""Bad manifests: refused at apply, or told in a condition that says what to write."""

import time

import pytest
import yaml

from demo.kube import Kube
from rtj_api import names
from tests.cluster import jobs
from tests.cluster.conftest import wait_until


def _apply(kube: Kube, job: dict) -> str:
    """What kubectl says to a manifest."""
    return kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(job), check=False)


def _condition(kube: Kube, job: str, kind: str) -> dict:
    conditions = kube.job(job).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def _misspelt(job: dict) -> None:
    jobs.trainer(job)["imagePulPolicy"] = "Always"


def _misspelt_in_spec(job: dict) -> None:
    job["spec"]["sparse"] = 2


def _no_nodes(job: dict) -> None:
    job["spec"]["nodes"] = 0


def _negative_nodes(job: dict) -> None:
    job["spec"]["nodes"] = -1


def _no_trainer(job: dict) -> None:
    jobs.trainer(job)["name"] = "main"


def _long_name(job: dict) -> None:
    job["metadata"]["name"] = "a" * 41


def _own_restart_policy(job: dict) -> None:
    job["spec"]["template"]["spec"]["restartPolicy"] = "Always"


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(_misspelt, "imagePulPolicy", id="misspelt field in the template"),
        pytest.param(_misspelt_in_spec, "spec.sparse", id="misspelt field in the spec"),
        pytest.param(_no_nodes, "spec.nodes", id="zero nodes"),
        pytest.param(_negative_nodes, "spec.nodes", id="negative nodes"),
        pytest.param(_no_trainer, "exactly one container trainer", id="no container named trainer"),
        pytest.param(_long_name, "metadata.name", id="a name too long for its pods' host names"),
        pytest.param(_own_restart_policy, "restartPolicy", id="a field that the operator owns"),
    ],
)
def test_apply_refuses_and_names_the_field(admin: Kube, change, want: str) -> None:
    job = jobs.demo_job("bad")
    change(job)
    said = _apply(admin, job)
    assert want in said
    assert "created" not in said


def test_an_unknown_instance_type_is_named_with_those_there_are(kube: Kube) -> None:
    _apply(kube, jobs.demo_job("unknown", instanceType="p9.48xlarge"))

    def told() -> bool:
        return "p9.48xlarge" in kube.job("unknown").get("status", {}).get("message", "")

    wait_until("condition", told, 10)
    message = kube.job("unknown")["status"]["message"]
    assert "spec.instanceType" in message
    assert "p5.48xlarge" in message
    assert kube.pods("unknown") == []


def test_a_missing_claim_is_waited_for(kube: Kube, start) -> None:
    claim = kube.kubectl("get", "pvc", jobs.STORAGE, "-o", "yaml")
    volume = f"{kube.namespace}-{jobs.STORAGE}"
    kube.kubectl("delete", "pvc", jobs.STORAGE)
    patch = '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'
    kube.kubectl("patch", "pv", volume, "--type=merge", "-p", patch)
    watch = start(jobs.demo_job("waits", steps=10))
    wait_until("reason", lambda: watch.status.get("reason") == "ClaimMissing", 15)
    assert jobs.STORAGE in watch.status["message"]
    assert kube.pods("waits") == []
    fresh = yaml.safe_load(claim)
    fresh["metadata"] = {"name": jobs.STORAGE}
    del fresh["status"]
    kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(fresh))
    watch.wait("completion", lambda w: w.status.get("phase") == "Complete", 90)


def test_an_image_that_cannot_be_pulled_is_told_with_the_kubelets_words(kube: Kube, start) -> None:
    job = jobs.demo_job("nopull")
    jobs.trainer(job)["image"] = "localhost/none:1"
    watch = start(job)
    wait_until("reason", lambda: watch.status.get("reason") == "ImagePull", 30)
    assert "localhost/none:1" in watch.status["message"]


def test_a_script_that_exits_1_at_once_fails_with_its_last_words(kube: Kube, start) -> None:
    job = jobs.demo_job("exits")
    script = "import sys; sys.stderr.write('no such dataset: c4\\n'); sys.exit(1)"
    jobs.set_args(job, "python", "-c", script)
    progress = {"maxRestartsWithoutProgress": 2}
    job["spec"]["resilience"]["progress"] = progress
    watch = start(job)
    watch.wait("failed phase", lambda w: w.status.get("phase") == "Failed", 180)
    failed = _condition(kube, "exits", "Failed")
    assert failed["status"] == "True"
    assert "no such dataset: c4" in failed["message"]
    wait_until(
        "end of its pods",
        lambda: all(p.status.phase in ("Succeeded", "Failed") for p in kube.pods("exits")),
        60,
    )


@pytest.mark.parametrize("seconds", [0.0, 1.0, 4.0, 12.0])
def test_deleting_the_job_at_any_moment_leaves_nothing(kube: Kube, start, seconds: float) -> None:
    start(jobs.demo_job("gone", steps=1000))
    began = time.monotonic()
    wait_until("its moment", lambda: time.monotonic() - began >= seconds, 20)
    kube.kubectl("delete", "rtj", "gone", "--timeout=30s")

    def left() -> str:
        kinds = "pods,services,secrets,networkpolicies"
        return kube.kubectl("get", kinds, "-l", f"{names.LABEL_JOB}=gone", "-o", "name")

    wait_until("end of everything", lambda: not left().strip(), 60)


def test_a_bad_job_does_not_harm_another(kube: Kube, start) -> None:
    for number in range(3):
        _apply(kube, jobs.demo_job(f"bad{number}", instanceType="nonsense"))
    watch = start(jobs.demo_job("good", steps=10))
    watch.wait("completion", lambda w: w.status.get("phase") == "Complete", 90)
