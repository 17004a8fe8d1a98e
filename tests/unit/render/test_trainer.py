"""The container `trainer`: ours is added, the user's stays."""

from typing import Any

import pytest

from rtj_api import names
from rtj_operator.render.objects import Manifest, UnusableTemplate
from tests.unit.render.builders import (
    a_container,
    a_spec,
    a_template,
    a_worker,
    environment_of,
    trainer_of,
)


def p5_worker(container: Manifest, **fields: Any) -> Manifest:
    return a_worker(a_spec(a_template(container), instanceType="p5.48xlarge", **fields))


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param({"args": ["train.py", "--x"]}, ["train.py", "--x"], id="args alone"),
        pytest.param({"command": ["my"], "args": None}, ["my"], id="command alone"),
        pytest.param({"command": ["a"], "args": ["b"]}, ["a", "b"], id="command, then args"),
    ],
)
def test_agent_runs_what_the_template_would(container: Manifest, want: list[str]) -> None:
    trainer = trainer_of(a_worker(a_spec(a_template(a_container(**container)))))
    assert trainer["command"] == ["rtj-agent"]
    assert trainer["args"] == ["--", *want]


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param({}, "name exactly one container trainer", id="empty template"),
        pytest.param(
            a_template({"name": "main", "image": "i", "args": ["a"]}),
            "(0 are named so)",
            id="no container of that name",
        ),
        pytest.param(
            a_template(a_container(args=[])), "containers[trainer].args: write", id="no command"
        ),
        pytest.param(
            a_template(a_container(image="")), "containers[trainer].image: write", id="no image"
        ),
    ],
)
def test_unusable_template_names_field_and_remedy(template: Manifest, want: str) -> None:
    spec = a_spec().model_copy(update={"template": template})
    with pytest.raises(UnusableTemplate) as error:
        a_worker(spec)
    assert want in str(error.value)
    assert str(error.value).startswith("spec.template.spec.containers")


def test_profile_devices_are_requests_and_limits() -> None:
    resources = trainer_of(p5_worker(a_container()))["resources"]
    devices = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5120Mi"}
    assert resources["limits"] == devices | {"memory": "1800Gi"}
    assert resources["requests"] == resources["limits"] | {"cpu": "172"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4}, id="fewer GPUs"),
        pytest.param({"memory": "1Ti"}, {"memory": "1Ti"}, id="own memory"),
        pytest.param({"hugepages-2Mi": "0"}, {"hugepages-2Mi": None}, id="no huge pages"),
        pytest.param({"vpc.amazonaws.com/efa": 0}, {"vpc.amazonaws.com/efa": None}, id="no EFA"),
    ],
)
def test_written_resources_win(given: Manifest, want: Manifest) -> None:
    limits = trainer_of(p5_worker(a_container(resources={"limits": given})))["resources"]["limits"]
    assert {name: limits.get(name) for name in want} == want


def test_cpu_asks_for_little_and_limits_nothing() -> None:
    resources = trainer_of(a_worker(a_spec()))["resources"]
    assert resources == {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {}}


def test_written_environment_wins_but_for_the_identity() -> None:
    env = [
        {"name": "NCCL_NVLS_ENABLE", "value": "1"},
        {"name": names.ENV_POD_UID, "value": "somebody-else"},
        {"name": names.ENV_FAULT, "value": "3:0:exception"},
    ]
    variables = trainer_of(p5_worker(a_container(env=env)))["env"]
    by_name = {variable["name"]: variable for variable in variables}
    assert len(by_name) == len(variables)
    assert by_name["NCCL_NVLS_ENABLE"]["value"] == "1"
    assert by_name[names.ENV_POD_UID]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.uid"
    assert by_name[names.ENV_FAULT]["value"] == "3:0:exception"


def test_environment_tells_the_worker_who_it_is() -> None:
    spec = a_spec(processesPerNode=2, storage={"checkpoints": {"claimName": "c"}})
    environment = environment_of(a_worker(spec, slot=7, incarnation=3))
    want = {
        names.ENV_JOB_NAME: "llama",
        names.ENV_SLOT: "7",
        names.ENV_INCARNATION: "3",
        names.ENV_COORDINATOR_HOST: "llama-coordinator",
        names.ENV_NODES: "2",
        names.ENV_PROCESSES_PER_NODE: "2",
        names.ENV_DEVICE: "cpu",
        names.ENV_IN_PROCESS: "1",
        names.ENV_GRACE_SECONDS: "90",
        names.ENV_CHECKPOINT_DIR: "/checkpoints/llama",
    }
    assert want.items() <= environment.items()


def test_without_in_process_restarts_nccl_keeps_nvls() -> None:
    off = {"inProcess": {"enabled": False}}
    environment = environment_of(p5_worker(a_container(), resilience=off))
    assert environment[names.ENV_IN_PROCESS] == "0"
    assert "NCCL_NVLS_ENABLE" not in environment


def test_paths_that_the_user_mounts_are_left_to_him() -> None:
    mounts = [{"name": "mine", "mountPath": "/dev/shm/"}]
    template = a_template(
        a_container(volumeMounts=mounts), volumes=[{"name": "mine", "emptyDir": {}}]
    )
    pod = a_worker(a_spec(template))
    paths = [mount["mountPath"] for mount in trainer_of(pod)["volumeMounts"]]
    assert paths == ["/dev/shm/", "/run/rtj", "/etc/rtj/key"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["mine", "rtj-run", "rtj-key"]


def test_no_probe_and_no_capability_is_added() -> None:
    trainer = trainer_of(p5_worker(a_container()))
    assert not {"livenessProbe", "readinessProbe", "startupProbe", "securityContext"} & set(trainer)


def test_written_ipc_lock_stays() -> None:
    context = {"capabilities": {"add": ["IPC_LOCK"]}}
    assert trainer_of(p5_worker(a_container(securityContext=context)))["securityContext"] == context
