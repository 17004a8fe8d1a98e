"""Services, policy and key."""

import base64

from rtj_operator.render import network_policy, secret, services
from tests.unit.render.builders import JOB

SAME_JOB = {"matchLabels": {"resilience.training/job-uid": JOB.uid}}


def test_coordinator_service_names_one_incarnation_and_keeps_the_store_reachable() -> None:
    spec = services.coordinator_service(JOB, 5)["spec"]
    assert spec["selector"]["resilience.training/incarnation"] == "5"
    assert spec["publishNotReadyAddresses"] is True
    assert all(port["port"] == port["targetPort"] for port in spec["ports"])


def test_workers_service_is_headless_from_the_first_moment() -> None:
    spec = services.workers_service(JOB)["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True


def test_only_the_jobs_own_pods_reach_everything() -> None:
    peers = network_policy.Peers(operator_namespace="op", operator_labels={"app": "rtj"})
    spec = network_policy.network_policy(JOB, peers)["spec"]
    own, view = spec["ingress"]
    assert spec["podSelector"] == SAME_JOB
    assert own == {"from": [{"podSelector": SAME_JOB}]}
    (operator,) = view["from"]
    assert operator["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "op"}
    assert operator["podSelector"]["matchLabels"] == {"app": "rtj"}
    assert [port["port"] for port in view["ports"]] == [29601]


def test_metrics_open_to_one_namespace_only_when_asked() -> None:
    peers = network_policy.Peers(operator_namespace="op", metrics_namespace="prom")
    *_, metrics = network_policy.network_policy(JOB, peers)["spec"]["ingress"]
    (source,) = metrics["from"]
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "prom"}
    assert [port["port"] for port in metrics["ports"]] == [29602]


def test_an_operator_outside_the_cluster_is_let_in_by_its_key_alone() -> None:
    _, view = network_policy.network_policy(JOB, network_policy.Peers())["spec"]["ingress"]
    assert "from" not in view


def test_key_file_is_the_key_as_hex() -> None:
    manifest = secret.key_secret(JOB, b"\x01\xff" * 16)
    assert base64.b64decode(manifest["data"]["key"]) == b"01ff" * 16
    assert manifest["immutable"] is True
