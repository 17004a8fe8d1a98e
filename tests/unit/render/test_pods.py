"""Workers and coordinator as pods: names, ownership, and what the template decides."""

import copy

import pytest

from rtj_api import names
from tests.unit.render.builders import (
    JOB,
    a_container,
    a_coordinator,
    a_spec,
    a_template,
    a_worker,
    trainer_of,
)


def test_worker_has_a_stable_name_in_the_workers_service() -> None:
    pod = a_worker(a_spec(), slot=3, incarnation=2)
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "llama-worker-3-2"
    assert pod["spec"]["subdomain"] == "llama-workers"
    assert pod["spec"]["restartPolicy"] == "Never"


def test_longest_names_are_host_names() -> None:
    job = "a" * names.NAME_MAX_LENGTH
    assert len(names.worker_pod(job, 4160, 99999)) <= 63


def test_job_controls_its_pods() -> None:
    (owner,) = a_worker(a_spec())["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "resilience.training/v1alpha1",
        "kind": "ResilientTrainingJob",
        "name": JOB.name,
        "uid": JOB.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_template_labels_and_annotations_stay_but_not_over_ours() -> None:
    template = a_template() | {
        "metadata": {
            "labels": {"team": "a", names.LABEL_JOB: "other"},
            "annotations": {"karpenter.sh/do-not-disrupt": "false", "note": "b"},
        }
    }
    metadata = a_worker(a_spec(template))["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["labels"][names.LABEL_JOB] == "llama"
    assert metadata["annotations"]["note"] == "b"
    assert metadata["annotations"]["karpenter.sh/do-not-disrupt"] == "false"


def test_written_pod_fields_stay() -> None:
    template = a_template(
        terminationGracePeriodSeconds=300,
        automountServiceAccountToken=True,
        serviceAccountName="team-sa",
        priorityClassName="high",
        securityContext={"fsGroup": 2000},
        initContainers=[{"name": "prepare", "image": "i"}],
    )
    written = {key: value for key, value in template["spec"].items() if key != "containers"}
    spec = a_worker(a_spec(template))["spec"]
    assert {key: spec[key] for key in written} == written
    grace = next(v for v in spec["containers"][0]["env"] if v["name"] == names.ENV_GRACE_SECONDS)
    assert grace["value"] == "300"


@pytest.mark.parametrize(("instance_type", "want"), [("cpu", 90), ("p5.48xlarge", 600)])
def test_grace_is_long_enough_for_a_save(instance_type: str, want: int) -> None:
    pod = a_worker(a_spec(instanceType=instance_type))
    assert pod["spec"]["terminationGracePeriodSeconds"] == want


def test_other_containers_are_left_alone() -> None:
    sidecar = {"name": "logs", "image": "fluent"}
    template = {"spec": {"containers": [sidecar, a_container()]}}
    pod = a_worker(a_spec(template))
    assert pod["spec"]["containers"][0] == sidecar
    assert trainer_of(pod)["command"] == ["rtj-agent"]


def test_a_pod_says_which_nodes_it_keeps_off_beside_what_its_template_says() -> None:
    mark = "resilience.training/excluded-nodes"
    template = a_template() | {"metadata": {"annotations": {"note": "yes"}}}
    assert mark not in a_worker(a_spec(template))["metadata"]["annotations"]
    annotations = a_worker(a_spec(template), excluded_nodes=("b", "a"))["metadata"]["annotations"]
    assert (annotations[mark], annotations["note"]) == ("a,b", "yes")


def test_rendering_leaves_the_spec_as_it_was() -> None:
    spec = a_spec(a_template(tolerations=[{"key": "a"}], affinity={"nodeAffinity": {}}))
    before = copy.deepcopy(spec.template)
    a_worker(spec, zone="z", excluded_nodes=["n"])
    a_coordinator(spec, zone="z", excluded_nodes=["n"])
    assert spec.template == before


def test_coordinator_runs_two_containers_of_the_trainers_image_without_devices() -> None:
    pod = a_coordinator(a_spec(instanceType="p5.48xlarge"), incarnation=4)
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "llama-coordinator-4"
    assert pod["spec"]["restartPolicy"] == "Always"
    for container, command in zip(
        pod["spec"]["containers"], ("rtj-coordinator", "rtj-control"), strict=True
    ):
        assert container["image"] == "example/llama:1"
        assert container["command"] == [command]
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_coordinator_takes_from_the_template_what_admits_it_and_no_more() -> None:
    context = {
        "runAsNonRoot": True,
        "privileged": True,
        "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
    }
    template = a_template(
        a_container(securityContext=context, imagePullPolicy="Never"),
        imagePullSecrets=[{"name": "pull"}],
        serviceAccountName="team-sa",
        nodeSelector={"kubernetes.io/arch": "arm64", "gpu": "yes"},
        runtimeClassName="nvidia",
    )
    spec = a_coordinator(a_spec(template))["spec"]
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["imagePullPolicy"] == "Never"
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["serviceAccountName"] == "team-sa"
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "arm64"}
    assert spec["automountServiceAccountToken"] is False
    assert "runtimeClassName" not in spec


def test_control_container_never_sees_the_key() -> None:
    coordinator, control = a_coordinator(a_spec())["spec"]["containers"]
    assert "rtj-key" in [mount["name"] for mount in coordinator["volumeMounts"]]
    assert "rtj-key" not in [mount["name"] for mount in control["volumeMounts"]]


def test_a_container_of_the_coordinator_pod_that_stands_still_is_restarted() -> None:
    coordinator, control = a_coordinator(a_spec())["spec"]["containers"]
    ports = {"coordinator": names.PORT_METRICS, "control": names.PORT_CONTROL_HEALTH}
    for container in (coordinator, control):
        probe = container["livenessProbe"]
        assert probe["httpGet"] == {"path": "/healthz", "port": ports[container["name"]]}
        # Not for a moment's pause, and well before anybody gives the job up.
        assert 10 <= probe["periodSeconds"] * probe["failureThreshold"] <= 30
        assert probe["timeoutSeconds"] >= 5
