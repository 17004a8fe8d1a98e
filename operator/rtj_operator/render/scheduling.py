"""Where pods may run: added to what the template asks for, never instead of it."""

from collections.abc import Iterable, Sequence
from typing import Final

from rtj_api import names
from rtj_operator.render.objects import JobRef, Manifest, entries, pod_selector, section
from rtj_operator.render.profiles import Profile

LABEL_HOSTNAME: Final = "kubernetes.io/hostname"
LABEL_ARCH: Final = "kubernetes.io/arch"
LABEL_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
LABEL_ZONE: Final = "topology.kubernetes.io/zone"

# The operator decides when a pod of a lost node goes, and not the taint manager after 300 s.
NODE_LOSS_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GPU_TAINT: Final = "nvidia.com/gpu"

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
HIGHEST_WEIGHT: Final = 100
MIDDLE_WEIGHT: Final = 50


def worker_affinity(
    job: JobRef, profile: Profile, user: Manifest, zone: str, excluded: Sequence[str]
) -> Manifest:
    """One worker per node, on the instance type, in the zone, on no excluded node."""
    wanted: list[Manifest] = []
    if profile.node_label_values:
        wanted.append(_expression(LABEL_INSTANCE_TYPE, "In", profile.node_label_values))
    if zone:
        wanted.append(_expression(LABEL_ZONE, "In", (zone,)))
    affinity = _with_node_requirements(user, [*wanted, *_not_on(excluded)])
    anti = dict(section(affinity, "podAntiAffinity"))
    anti[REQUIRED] = [*entries(anti, REQUIRED), _same_node_as(job, names.ROLE_WORKER)]
    # Soft: losing one node should not cost a worker and the rendezvous at once.
    anti[PREFERRED] = [*entries(anti, PREFERRED), _away_from(job, names.ROLE_COORDINATOR)]
    return affinity | {"podAntiAffinity": anti}


def coordinator_affinity(
    job: JobRef, profile: Profile, zone: str, excluded: Sequence[str]
) -> Manifest:
    """Any node that runs the image, but rather none of the workers' machines, and in their zone;
    the standby above all not on the coordinator's node, whose loss it is there for.

    The template's own affinity is for GPU machines and does not count here.
    """
    required: list[Manifest] = []
    if profile.family.arch:
        # The image is the workers'; the CPU nodes of the cluster may be of another architecture.
        required.append(_expression(LABEL_ARCH, "In", (profile.family.arch,)))
    affinity = _with_node_requirements({}, [*required, *_not_on(excluded)])
    preferred: list[Manifest] = []
    if profile.node_label_values:
        other = _expression(LABEL_INSTANCE_TYPE, "NotIn", profile.node_label_values)
        preferred.append(_preference(other))
    if zone:
        preferred.append(_preference(_expression(LABEL_ZONE, "In", (zone,))))
    if preferred:
        affinity["nodeAffinity"] = section(affinity, "nodeAffinity") | {PREFERRED: preferred}
    away = [
        _away_from(job, names.ROLE_COORDINATOR),
        # Workers keep away from coordinators with full weight themselves, which counts here too.
        _away_from(job, names.ROLE_WORKER, MIDDLE_WEIGHT),
    ]
    return affinity | {"podAntiAffinity": {PREFERRED: away}}


def tolerations(profile: Profile, user: Iterable[Manifest]) -> list[Manifest]:
    """The user's, and ours where he has none of the same key."""
    given = list(user)
    ours: list[Manifest] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute"} for key in NODE_LOSS_TAINTS
    ]
    if profile.device == "cuda":
        ours.append({"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"})
    keys = {toleration.get("key") for toleration in given}
    return given + [toleration for toleration in ours if toleration["key"] not in keys]


def _with_node_requirements(user: Manifest, expressions: list[Manifest]) -> Manifest:
    """Terms are ORed, so each of the user's must carry ours too."""
    affinity = dict(user)
    if not expressions:
        return affinity
    node = dict(section(affinity, "nodeAffinity"))
    terms = entries(section(node, REQUIRED), "nodeSelectorTerms") or [{}]
    node[REQUIRED] = {
        "nodeSelectorTerms": [
            term | {"matchExpressions": [*entries(term, "matchExpressions"), *expressions]}
            for term in terms
        ]
    }
    return affinity | {"nodeAffinity": node}


def _not_on(nodes: Sequence[str]) -> list[Manifest]:
    # By label and not by `metadata.name`: Karpenter does not read matchFields and would wait for
    # the excluded node. This label it refuses in a requirement, and makes no node for the pod
    # (kubernetes-sigs/karpenter#3214): so only nodes are named that no taint keeps pods off.
    return [_expression(LABEL_HOSTNAME, "NotIn", sorted(nodes))] if nodes else []


def _expression(key: str, operator: str, values: Iterable[str]) -> Manifest:
    return {"key": key, "operator": operator, "values": list(values)}


def _preference(expression: Manifest) -> Manifest:
    return {"weight": MIDDLE_WEIGHT, "preference": {"matchExpressions": [expression]}}


def _same_node_as(job: JobRef, role: str) -> Manifest:
    return {
        "topologyKey": LABEL_HOSTNAME,
        "labelSelector": {"matchLabels": pod_selector(job, role)},
    }


def _away_from(job: JobRef, role: str, weight: int = HIGHEST_WEIGHT) -> Manifest:
    return {"weight": weight, "podAffinityTerm": _same_node_as(job, role)}
