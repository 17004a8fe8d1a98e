"""The container `trainer` of a worker: the agent as its process, the profile's devices, our mounts.

What the template sets stays: an environment variable, a resource or a mount of the user's is never
replaced by one of ours, but for the worker's identity. `0` of a resource means "do not ask for it".
IPC_LOCK is not added, since the baseline security level refuses it: a template that wants it adds
it to the container's own securityContext.
"""

from collections.abc import Mapping
from typing import Final

from rtj_api import names
from rtj_api.rules import OWNED_ENVIRONMENT
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render import volumes
from rtj_operator.render.objects import JobRef, Manifest, UnusableTemplate, entries, section
from rtj_operator.render.profiles import Profile, processes_per_node

COMMAND: Final = "rtj-agent"
HUGEPAGES: Final = "hugepages-2Mi"
GPU: Final = "nvidia.com/gpu"
EFA: Final = "vpc.amazonaws.com/efa"
METRICS_PORT_NAME: Final = "rtj-metrics"

_FROM_POD: Final = (
    (names.ENV_POD_NAME, "metadata.name"),
    (names.ENV_POD_UID, "metadata.uid"),
    (names.ENV_POD_IP, "status.podIP"),
)


def find(template: Manifest) -> Manifest:
    """The template's container `trainer`; raises UnusableTemplate."""
    containers = entries(section(template, "spec"), "containers")
    found = [c for c in containers if c.get("name") == names.CONTAINER_TRAINER]
    where = "spec.template.spec.containers"
    if len(found) != 1:
        raise UnusableTemplate(
            f"{where}: name exactly one container {names.CONTAINER_TRAINER}: the one that runs "
            f"the training script ({len(found)} are named so)"
        )
    trainer = found[0]
    if not trainer.get("image"):
        raise UnusableTemplate(f"{where}[{names.CONTAINER_TRAINER}].image: write the image")
    if not trainer.get("command") and not trainer.get("args"):
        raise UnusableTemplate(
            f"{where}[{names.CONTAINER_TRAINER}].args: write the training script and its "
            "arguments, for example [train.py] or [-m, my.module]; the image's own entry point "
            "is not run"
        )
    return trainer


def build(
    job: JobRef,
    spec: ResilientTrainingJobSpec,
    profile: Profile,
    user: Manifest,
    identity: Mapping[str, str],
) -> Manifest:
    """The container as it runs; `identity` are the variables of this very worker."""
    return {
        # An agent that could not write its last words is explained by its log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **user,
        "command": [COMMAND],
        "args": ["--", *(user.get("command") or ()), *(user.get("args") or ())],
        "env": _environment(job, spec, profile, entries(user, "env"), identity),
        "resources": _resources(profile, section(user, "resources")),
        "volumeMounts": volumes.worker_mounts(spec, entries(user, "volumeMounts")),
        "ports": _ports(entries(user, "ports")),
    }


def pod_environment() -> list[Manifest]:
    """Variables that only the kubelet knows."""
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _FROM_POD
    ]


def plain_environment(values: Mapping[str, str]) -> list[Manifest]:
    """Variables with fixed values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def _environment(
    job: JobRef,
    spec: ResilientTrainingJobSpec,
    profile: Profile,
    user: list[Manifest],
    identity: Mapping[str, str],
) -> list[Manifest]:
    in_process = spec.resilience.in_process.enabled
    values = {
        names.ENV_JOB_NAME: job.name,
        names.ENV_JOB_UID: job.uid,
        **identity,
        names.ENV_COORDINATOR_HOST: names.coordinator_service(job.name),
        names.ENV_NODES: str(spec.nodes),
        names.ENV_PROCESSES_PER_NODE: str(processes_per_node(spec, profile)),
        names.ENV_DEVICE: profile.device,
        names.ENV_IN_PROCESS: "1" if in_process else "0",
        **profile.family.env,
    }
    if in_process:
        values |= profile.family.env_in_process
    if spec.storage.checkpoints is not None:
        # A folder of its own: jobs may share a claim.
        mount = spec.storage.checkpoints.mount_path.rstrip("/")
        values[names.ENV_CHECKPOINT_DIR] = f"{mount}/{job.name}"
    ours = plain_environment(values) + pod_environment()
    kept = [variable for variable in user if variable.get("name") not in OWNED_ENVIRONMENT]
    given = {variable.get("name") for variable in kept}
    # Ours first, so that the user's may refer to them by $(NAME).
    return [variable for variable in ours if variable["name"] not in given] + kept


def _resources(profile: Profile, user: Manifest) -> Manifest:
    requests = dict(section(user, "requests"))
    limits = dict(section(user, "limits"))
    instance = profile.instance
    devices = {GPU: instance.gpus, EFA: instance.efa, HUGEPAGES: instance.hugepages_2mi}
    for name, amount in devices.items():
        if amount and name not in requests and name not in limits:
            requests[name] = limits[name] = str(amount)
    if "cpu" not in requests and "cpu" not in limits:
        requests["cpu"] = instance.cpu
    if "memory" not in requests and "memory" not in limits:
        requests["memory"] = instance.memory
        # A whole machine is this worker's alone; a small one's true need is not known here.
        if profile.device == "cuda":
            limits["memory"] = instance.memory
    return dict(user) | {"requests": _asked_for(requests), "limits": _asked_for(limits)}


def _asked_for(amounts: Manifest) -> Manifest:
    return {name: amount for name, amount in amounts.items() if str(amount) != "0"}


def _ports(user: list[Manifest]) -> list[Manifest]:
    if any(port.get("containerPort") == names.PORT_METRICS for port in user):
        return user
    ours = {"name": METRICS_PORT_NAME, "containerPort": names.PORT_METRICS, "protocol": "TCP"}
    return [*user, ours]
