"""Where pods may run: ours is added to each of the user's alternatives."""

from typing import Any

from rtj_api import names
from rtj_operator.render.objects import Manifest
from rtj_operator.render.scheduling import PREFERRED, REQUIRED
from tests.unit.render.builders import a_coordinator, a_spec, a_template, a_worker

INSTANCE = {
    "key": "node.kubernetes.io/instance-type",
    "operator": "In",
    "values": ["p5.48xlarge", "ml.p5.48xlarge"],
}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]}
NOT_ON = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["a", "b"]}


def node_terms(pod: Manifest) -> list[Manifest]:
    return pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def a_pinned_worker(**pod: Any) -> Manifest:
    spec = a_spec(a_template(**pod), instanceType="p5.48xlarge")
    return a_worker(spec, zone="z", excluded_nodes=("b", "a"))


def test_instance_type_zone_and_excluded_nodes() -> None:
    assert node_terms(a_pinned_worker()) == [{"matchExpressions": [INSTANCE, ZONE, NOT_ON]}]


def test_each_alternative_of_the_user_carries_ours() -> None:
    own = {"key": "pool", "operator": "In", "values": ["x"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    affinity = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [own]}, {"matchFields": [name]}]}
        }
    }
    assert node_terms(a_pinned_worker(affinity=affinity)) == [
        {"matchExpressions": [own, INSTANCE, ZONE, NOT_ON]},
        {"matchFields": [name], "matchExpressions": [INSTANCE, ZONE, NOT_ON]},
    ]


def test_a_cpu_worker_without_zone_may_run_anywhere() -> None:
    assert "nodeAffinity" not in a_worker(a_spec())["spec"]["affinity"]


def test_one_worker_of_a_job_per_node_beside_the_users_rules() -> None:
    own = {"topologyKey": "rack", "labelSelector": {}}
    affinity = {"podAntiAffinity": {REQUIRED: [own]}}
    anti = a_worker(a_spec(a_template(affinity=affinity)))["spec"]["affinity"]["podAntiAffinity"]
    first, ours = anti[REQUIRED]
    assert first == own
    assert ours["topologyKey"] == "kubernetes.io/hostname"
    assert ours["labelSelector"]["matchLabels"]["resilience.training/role"] == "worker"
    (away,) = anti[PREFERRED]
    labels = away["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert labels["resilience.training/role"] == "coordinator"


def test_node_loss_is_tolerated_without_an_end() -> None:
    tolerations = a_pinned_worker()["spec"]["tolerations"]
    assert {t["key"]: t.get("tolerationSeconds") for t in tolerations} == {
        "node.kubernetes.io/not-ready": None,
        "node.kubernetes.io/unreachable": None,
        "nvidia.com/gpu": None,
    }


def test_the_users_toleration_of_the_same_taint_wins() -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 9}
    tolerations = a_worker(a_spec(a_template(tolerations=[own])))["spec"]["tolerations"]
    assert [t for t in tolerations if t["key"] == own["key"]] == [own]


def test_coordinator_avoids_excluded_nodes_and_prefers_others_than_the_workers() -> None:
    spec = a_spec(instanceType="p5.48xlarge")
    pod = a_coordinator(spec, zone="z", excluded_nodes=("b", "a"))
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    assert node_terms(pod) == [{"matchExpressions": [arch, NOT_ON]}]
    affinity = pod["spec"]["affinity"]
    preferred = [
        p["preference"]["matchExpressions"][0] for p in affinity["nodeAffinity"][PREFERRED]
    ]
    assert preferred == [INSTANCE | {"operator": "NotIn"}, ZONE]
    assert REQUIRED not in affinity["podAntiAffinity"]


def test_coordinators_of_a_job_keep_off_one_another_more_than_off_its_workers() -> None:
    terms = a_coordinator(a_spec())["spec"]["affinity"]["podAntiAffinity"][PREFERRED]
    weights = {
        term["podAffinityTerm"]["labelSelector"]["matchLabels"][names.LABEL_ROLE]: term["weight"]
        for term in terms
    }
    assert weights[names.ROLE_COORDINATOR] > weights[names.ROLE_WORKER] > 0
    assert {t["podAffinityTerm"]["topologyKey"] for t in terms} == {"kubernetes.io/hostname"}


def test_coordinator_ignores_the_affinity_of_gpu_machines() -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": []}]}}}
    pod = a_coordinator(a_spec(a_template(affinity=affinity)))
    assert "nodeAffinity" not in pod["spec"]["affinity"]
