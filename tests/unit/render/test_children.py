"""Services, policy, key and the hash of a run."""

import base64
from typing import Any

import pytest

from rtj_operator.render import network_policy, secret, services
from rtj_operator.render.run_hash import run_hash
from tests.unit.render.builders import JOB, a_spec, a_template

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


def test_hash_is_the_same_for_another_order_of_keys() -> None:
    turned = dict(reversed(list(a_template()["spec"]["containers"][0].items())))
    assert run_hash(a_spec()) == run_hash(a_spec(a_template(turned)))


@pytest.mark.parametrize(
    ("change", "want_same"),
    [
        pytest.param({"nodes": 3}, False, id="nodes"),
        pytest.param({"processesPerNode": 2}, False, id="processes per node"),
        pytest.param({"instanceType": "p5.48xlarge"}, False, id="instance type"),
        pytest.param({"storage": {"zone": "z"}}, False, id="storage"),
        pytest.param({"template": a_template(priorityClassName="x")}, False, id="template"),
        pytest.param({"spares": 2}, True, id="spares may change in a run"),
        pytest.param({"suspend": True}, True, id="suspend is no change"),
        pytest.param({"resilience": {"pod": {"limit": 1}}}, True, id="budgets may change in a run"),
    ],
)
def test_hash_tells_what_a_run_is_made_of(change: dict[str, Any], want_same: bool) -> None:
    assert (run_hash(a_spec()) == run_hash(a_spec(**change))) is want_same
