"""Each validation rule: a job that a real server accepts, and one that it refuses with the words
that say what to write."""

import json
from typing import Any

import pytest

from rtj_api.rules import RULES
from tests.api.jobs import Job, a_job, a_trainer, as_json
from tests.api.support.kubectl import Kubectl

SUSPENDED = {"spec__suspend": True}


def apply(kubectl: Kubectl, namespace: str, job: Job, *flags: str) -> str:
    """Empty when the server takes it; else what kubectl said."""
    done = kubectl("apply", "-n", namespace, "-f", "-", *flags, stdin=as_json(job))
    return "" if done.returncode == 0 else done.stderr


def judged(kubectl: Kubectl, job: Job) -> str:
    done = kubectl("create", "--dry-run=server", "-f", "-", stdin=as_json(job))
    return "" if done.returncode == 0 else done.stderr


def beat(**fields: int) -> dict[str, Any]:
    return {"spec__resilience__heartbeat": fields}


def pod(**fields: Any) -> dict[str, Any]:
    return {f"spec__template__spec__{name}": value for name, value in fields.items()}


# (accepted, refused, the refused one's field and words)
CREATION_CASES = [
    pytest.param(
        {"metadata__name": "a" * 40},
        {"metadata__name": "a" * 41},
        "metadata.name: Forbidden: write a name of at most 40 characters",
        id="name of at most 40 characters",
    ),
    pytest.param(
        {"metadata__name": "job-1"},
        {"metadata__name": "1.job"},
        "metadata.name: Forbidden: write a name of lower-case letters, digits and '-'",
        id="name is a host name",
    ),
    pytest.param(
        beat(timeoutSeconds=4, intervalSeconds=2),
        beat(timeoutSeconds=3, intervalSeconds=2),
        "spec.resilience.heartbeat.timeoutSeconds: Forbidden: write at least twice",
        id="one late beat is no loss",
    ),
    pytest.param(
        beat(rankTimeoutSeconds=1800),
        beat(rankTimeoutSeconds=1801),
        "spec.resilience.heartbeat.initialRankTimeoutSeconds: Forbidden: write at least",
        id="first step is given no less time",
    ),
    *(
        pytest.param(
            {f"spec__resilience__{rung}": {"windowSeconds": 300}},
            {f"spec__resilience__{rung}": {"windowSeconds": 299}},
            f"spec.resilience.{rung}.deadlineSeconds: Forbidden: write at most windowSeconds",
            id=f"deadline of {rung} lies in its window",
        )
        for rung in ("inProcess", "inJob", "pod", "node", "gang")
    ),
    *(
        pytest.param(
            {"spec__storage__checkpoints": {"claimName": "c", "mountPath": good}},
            {"spec__storage__checkpoints": {"claimName": "c", "mountPath": bad}},
            "spec.storage.checkpoints.mountPath: Forbidden: write a folder of its own",
            id=f"checkpoints not at {bad}",
        )
        for good, bad in (
            ("/checkpoints", "/"),
            ("/devices", "/dev/shm"),
            ("/run/rtjs", "/run/rtj"),
            ("/etc/rt", "/etc/rtj/key"),
        )
    ),
    *(
        pytest.param(
            {},
            pod(**{field: value}),
            f"spec.template.spec.{field}: Forbidden: remove it",
            id=f"template must not set {field}",
        )
        for field, value in (
            ("nodeName", "n1"),
            ("hostname", "h"),
            ("subdomain", "s"),
            ("hostnameOverride", "h"),
            ("setHostnameAsFQDN", True),
            ("activeDeadlineSeconds", 5),
            ("shareProcessNamespace", True),
            ("ephemeralContainers", [{"name": "debug", "image": "i"}]),
        )
    ),
    pytest.param(
        pod(hostNetwork=False),
        pod(hostNetwork=True),
        "spec.template.spec.hostNetwork: Forbidden: remove it: NetworkPolicies do not protect",
        id="no host network",
    ),
    pytest.param(
        pod(restartPolicy="Never"),
        pod(restartPolicy="Always"),
        "spec.template.spec.restartPolicy: Forbidden: write Never or remove it",
        id="the operator restarts",
    ),
    *(
        pytest.param(
            pod(terminationGracePeriodSeconds=1),
            pod(terminationGracePeriodSeconds=seconds),
            "spec.template.spec.terminationGracePeriodSeconds: Forbidden: write at least 1",
            id=f"ranks cannot save and leave in {seconds} s",
        )
        for seconds in (0, -5)
    ),
    *(
        pytest.param(
            {f"spec__template__metadata__{kind}": {"resilience.trainings/a": "b"}},
            {f"spec__template__metadata__{kind}": {"resilience.training/a": "b"}},
            f"spec.template.metadata.{kind}: Forbidden: remove the keys that begin with",
            id=f"our keys are not among the template's {kind}",
        )
        for kind in ("labels", "annotations")
    ),
    pytest.param(
        pod(containers=[*a_trainer(), {"name": "logs", "image": "i"}]),
        pod(containers=[{"name": "main", "image": "i", "args": ["a"]}]),
        "spec.template.spec.containers: Forbidden: name exactly one container trainer",
        id="one container is named trainer",
    ),
    pytest.param(
        pod(containers=a_trainer(args=None, command=["train"])),
        pod(containers=a_trainer(args=None)),
        "spec.template.spec.containers: Required value: write args of the container trainer",
        id="trainer says what to run",
    ),
    pytest.param(
        pod(containers=a_trainer(image="i")),
        pod(containers=a_trainer(image=None)),
        "spec.template.spec.containers: Required value: write the image of every container",
        id="containers have images",
    ),
    pytest.param(
        pod(containers=a_trainer(env=[{"name": "RTJ_FAULT", "value": "1:0:exception"}])),
        pod(containers=a_trainer(env=[{"name": "RTJ_POD_UID", "value": "x"}])),
        "spec.template.spec.containers: Forbidden: remove the RTJ_ variables of identity",
        id="identity is the operator's",
    ),
    pytest.param(
        pod(volumes=[{"name": "rt", "emptyDir": {}}]),
        pod(volumes=[{"name": "rtj-x", "emptyDir": {}}]),
        "spec.template.spec.volumes: Forbidden: rename the volumes that begin with rtj-",
        id="our volume names are ours",
    ),
]

# (field, a change of it) of a job that has trained.
FIXED_CASES = [
    pytest.param("nodes", {"spec__nodes": 3}, id="nodes"),
    pytest.param("processesPerNode", {"spec__processesPerNode": 2}, id="processesPerNode"),
    pytest.param("instanceType", {"spec__instanceType": "p5.48xlarge"}, id="instanceType"),
    pytest.param("storage", {"spec__storage__zone": "z"}, id="storage"),
    pytest.param("template", pod(priorityClassName="high"), id="template"),
]


@pytest.mark.parametrize(("accepted", "refused", "want"), CREATION_CASES)
def test_rule_accepts_one_and_refuses_the_other(
    kubectl: Kubectl, accepted: dict[str, Any], refused: dict[str, Any], want: str
) -> None:
    assert judged(kubectl, a_job(**accepted)) == ""
    said = judged(kubectl, a_job(**refused))
    assert want in said


def tell(kubectl: Kubectl, namespace: str, **status: str) -> None:
    """Status as the operator leaves it."""
    patch = json.dumps({"status": {"format": 1, **status}})
    where = ("-n", namespace, "--subresource=status", "--type=merge", f"--patch={patch}")
    done = kubectl("patch", "rtj", "job", *where)
    assert done.returncode == 0, done.stderr


TRAINED = {"firstStepTime": "2026-01-01T00:00:00Z", "phase": "Running"}


@pytest.mark.parametrize(("field", "change"), FIXED_CASES)
def test_field_is_fixed_in_a_job_that_has_trained_and_free_in_a_suspended_one(
    kubectl: Kubectl, namespace: str, field: str, change: dict[str, Any]
) -> None:
    assert apply(kubectl, namespace, a_job()) == ""
    tell(kubectl, namespace, **TRAINED)
    said = apply(kubectl, namespace, a_job(**change), "--dry-run=server")
    assert f"spec.{field}: Forbidden: spec.{field} is fixed while the job runs: set" in said
    assert apply(kubectl, namespace, a_job(**SUSPENDED)) == ""
    assert apply(kubectl, namespace, a_job(**change)) == ""


@pytest.mark.parametrize(("field", "change"), FIXED_CASES)
def test_field_is_free_before_the_first_step_and_fixed_when_the_job_has_ended(
    kubectl: Kubectl, namespace: str, field: str, change: dict[str, Any]
) -> None:
    assert apply(kubectl, namespace, a_job()) == ""
    assert apply(kubectl, namespace, a_job(**change)) == ""
    tell(kubectl, namespace, phase="Starting")
    assert apply(kubectl, namespace, a_job()) == ""
    for ended in ({"phase": "Failed"}, {**TRAINED, "phase": "Complete"}):
        tell(kubectl, namespace, **ended)
        said = apply(kubectl, namespace, a_job(**change), "--dry-run=server")
        assert f"spec.{field}: Forbidden: the job has ended and does not start again" in said
        assert "while the job runs" not in said


def test_spares_budgets_and_suspend_may_change_in_a_running_job(
    kubectl: Kubectl, namespace: str
) -> None:
    assert apply(kubectl, namespace, a_job()) == ""
    tell(kubectl, namespace, **TRAINED)
    changed = a_job(spec__spares=3, spec__suspend=True, spec__resilience__pod__limit=1)
    assert apply(kubectl, namespace, changed) == ""


def test_every_rule_is_told_by_some_case() -> None:
    """A rule is told where its field and the beginning of its words are."""
    words = [str(case.values[2]) for case in CREATION_CASES]
    for case in FIXED_CASES:
        field = f"spec.{case.values[0]}"
        words += [f"{field}: Forbidden: {field}", f"{field}: Forbidden: the job has ended"]
    untold = [
        rule
        for rule in RULES
        if not any(
            f"{rule.field_path[1:]}: " in word and rule.message[:6] in word for word in words
        )
    ]
    assert untold == []
