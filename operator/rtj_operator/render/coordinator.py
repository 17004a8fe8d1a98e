"""What the coordinator pod is made of: two containers of the trainer's image, and no GPU.

It takes from the template only what decides whether the image can be pulled and admitted.
"""

import copy
from typing import Final

from rtj_api import names
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render import scheduling, trainer, volumes
from rtj_operator.render.objects import JobRef, Manifest, entries, section
from rtj_operator.render.profiles import Profile, processes_per_node

GRACE_SECONDS: Final = 5

# Of the template's pod: who may pull, who it runs as, how it finds names, how important it is.
_FROM_POD: Final = (
    "imagePullSecrets",
    "serviceAccountName",
    "securityContext",
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "priorityClassName",
    "preemptionPolicy",
)
# Of the trainer container: what makes it admissible, not what gives it more rights.
_FROM_SECURITY_CONTEXT: Final = (
    "allowPrivilegeEscalation",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "seccompProfile",
)
# Memory limits leave room for thousands of workers: 56 MB were measured for 1,000; nvrx-control
# imports torch. No CPU limit: throttling would look like silence.
_COORDINATOR_RESOURCES: Final[Manifest] = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"memory": "1Gi"},
}
_CONTROL_RESOURCES: Final[Manifest] = {
    "requests": {"cpu": "100m", "memory": "512Mi"},
    "limits": {"memory": "2Gi"},
}
# A container that stands still keeps its sockets open and its pod running, so nobody takes it for
# lost. The kubelet, whom no NetworkPolicy stops, restarts it: what the coordinator knows is in
# coordinator.json; a control that stands still can start no run. Patient, because a restart of
# control ends the rendezvous.
_LIVENESS: Final[Manifest] = {"periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3}


def build(
    job: JobRef, spec: ResilientTrainingJobSpec, profile: Profile, incarnation: int
) -> Manifest:
    """The pod's spec but for its name and place. Raises UnusableTemplate."""
    user = trainer.find(spec.template)
    pod: Manifest = spec.template["spec"]
    environment = trainer.plain_environment(
        {
            names.ENV_JOB_NAME: job.name,
            names.ENV_JOB_UID: job.uid,
            names.ENV_INCARNATION: str(incarnation),
            names.ENV_NODES: str(spec.nodes),
            names.ENV_PROCESSES_PER_NODE: str(processes_per_node(spec, profile)),
        }
    )
    common = _common(user) | {"env": environment + trainer.pod_environment()}
    return {
        **{key: copy.deepcopy(pod[key]) for key in _FROM_POD if key in pod},
        **_platform(pod),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # A container that ended comes back by itself; the pod's loss is the operator's business.
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "tolerations": scheduling.tolerations(profile, entries(pod, "tolerations")),
        "volumes": volumes.shared_volumes(job),
        "containers": [_coordinator(common), _control(common)],
    }


def _coordinator(common: Manifest) -> Manifest:
    ports = (
        ("worker", names.PORT_WORKER_SOCKET),
        ("view", names.PORT_VIEW_SOCKET),
        (trainer.METRICS_PORT_NAME, names.PORT_METRICS),
    )
    return {
        **common,
        "name": names.CONTAINER_COORDINATOR,
        "command": ["rtj-coordinator"],
        "ports": [_port(name, number) for name, number in ports],
        "resources": copy.deepcopy(_COORDINATOR_RESOURCES),
        "livenessProbe": _liveness(names.PORT_METRICS),
        "volumeMounts": [volumes.RUN_MOUNT, volumes.KEY_MOUNT],
    }


def _control(common: Manifest) -> Manifest:
    return {
        **common,
        "name": names.CONTAINER_CONTROL,
        "command": ["rtj-control"],
        "ports": [_port("store", names.PORT_STORE)],
        "resources": copy.deepcopy(_CONTROL_RESOURCES),
        "livenessProbe": _liveness(names.PORT_CONTROL_HEALTH),
        "volumeMounts": [volumes.RUN_MOUNT],
    }


def _liveness(port: int) -> Manifest:
    return {"httpGet": {"path": "/healthz", "port": port}, **_LIVENESS}


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _common(user: Manifest) -> Manifest:
    out: Manifest = {"image": user["image"], "terminationMessagePolicy": "FallbackToLogsOnError"}
    if "imagePullPolicy" in user:
        out["imagePullPolicy"] = user["imagePullPolicy"]
    context = _security_context(section(user, "securityContext"))
    return out | ({"securityContext": context} if context else {})


def _security_context(user: Manifest) -> Manifest:
    out: Manifest = {key: user[key] for key in _FROM_SECURITY_CONTEXT if key in user}
    dropped = section(user, "capabilities").get("drop")
    return out | ({"capabilities": {"drop": list(dropped)}} if dropped else {})


def _platform(pod: Manifest) -> Manifest:
    """Of the template's nodeSelector, what says on which kind of machine the image runs at all."""
    selector = section(pod, "nodeSelector")
    platform = {
        key: value
        for key, value in selector.items()
        if key in (scheduling.LABEL_ARCH, "kubernetes.io/os")
    }
    return {"nodeSelector": platform} if platform else {}
