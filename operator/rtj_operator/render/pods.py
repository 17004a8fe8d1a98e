"""The job's pods: workers from the template, and the coordinator beside them.

Pods are bare (no Job, no StatefulSet), because a position must be given to a spare at once and a
lost node's pod must not be waited for.
"""

import copy
from collections.abc import Sequence
from typing import Final

from rtj_api import names
from rtj_api.spec import ResilientTrainingJobSpec
from rtj_operator.render import coordinator, scheduling, trainer, volumes
from rtj_operator.render.objects import JobRef, Manifest, entries, metadata, section
from rtj_operator.render.profiles import Profile

# By device: longer than the launcher needs to end its ranks, and than an agreed save takes. Saves
# of large models to FSx for Lustre take minutes.
DEFAULT_GRACE_SECONDS: Final = {"cuda": 600, "cpu": 90}
# Training is not to be moved for the sake of packing.
DO_NOT_MOVE: Final = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
ANNOTATION_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def worker_pod(
    job: JobRef,
    spec: ResilientTrainingJobSpec,
    profile: Profile,
    *,
    slot: int,
    incarnation: int,
    zone: str = "",
    excluded_nodes: Sequence[str] = (),
) -> Manifest:
    """One worker. Raises UnusableTemplate, which names the field and what to write."""
    template = copy.deepcopy(spec.template)
    user = section(template, "spec")
    name = names.worker_pod(job.name, slot, incarnation)
    default = DEFAULT_GRACE_SECONDS[profile.device]
    grace = int(user.get("terminationGracePeriodSeconds", default))
    identity = {
        names.ENV_SLOT: str(slot),
        names.ENV_INCARNATION: str(incarnation),
        names.ENV_GRACE_SECONDS: str(grace),
    }
    container = trainer.build(job, spec, profile, trainer.find(template), identity)
    mine = volumes.worker_volumes(job, spec, profile, container["volumeMounts"])
    pod_spec: Manifest = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        **user,
        "terminationGracePeriodSeconds": grace,
        "restartPolicy": "Never",
        "hostname": name,
        "subdomain": names.workers_service(job.name),
        "containers": [
            container if c["name"] == names.CONTAINER_TRAINER else c for c in user["containers"]
        ],
        "volumes": [*entries(user, "volumes"), *mine],
        "tolerations": scheduling.tolerations(profile, entries(user, "tolerations")),
        "affinity": scheduling.worker_affinity(
            job, profile, section(user, "affinity"), zone, excluded_nodes
        ),
    }
    labels = {names.LABEL_SLOT: str(slot)} | _role(names.ROLE_WORKER, incarnation)
    pod = _pod(job, name, template, labels, names.CONTAINER_TRAINER, pod_spec)
    return _marked(pod, excluded_nodes)


def coordinator_pod(
    job: JobRef,
    spec: ResilientTrainingJobSpec,
    profile: Profile,
    *,
    incarnation: int,
    zone: str = "",
    excluded_nodes: Sequence[str] = (),
) -> Manifest:
    """One incarnation of the coordinator. Raises UnusableTemplate."""
    name = names.coordinator_pod(job.name, incarnation)
    pod_spec = coordinator.build(job, spec, profile, incarnation) | {
        "hostname": name,
        "affinity": scheduling.coordinator_affinity(job, profile, zone, excluded_nodes),
    }
    labels = _role(names.ROLE_COORDINATOR, incarnation)
    pod = _pod(job, name, {}, labels, names.CONTAINER_COORDINATOR, pod_spec)
    return _marked(pod, excluded_nodes)


def _role(role: str, incarnation: int) -> dict[str, str]:
    return {names.LABEL_ROLE: role, names.LABEL_INCARNATION: str(incarnation)}


def _marked(pod: Manifest, excluded_nodes: Sequence[str]) -> Manifest:
    """The pod, told by an annotation what it keeps off, apart from what its template does."""
    if excluded_nodes:
        marks = {names.ANNOTATION_EXCLUDED: ",".join(sorted(excluded_nodes))}
        pod["metadata"]["annotations"] |= marks
    return pod


def _pod(
    job: JobRef,
    name: str,
    template: Manifest,
    labels: dict[str, str],
    default_container: str,
    spec: Manifest,
) -> Manifest:
    given = section(template, "metadata")
    meta = metadata(job, name, labels)
    meta["labels"] = section(given, "labels") | meta["labels"]
    defaults = {**DO_NOT_MOVE, ANNOTATION_DEFAULT_CONTAINER: default_container}
    meta["annotations"] = defaults | section(given, "annotations")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
