"""The job's NetworkPolicy: the rendezvous store has no authentication, so the network must.

Ingress only. Where the cluster's network does not enforce policies, the sockets still demand the
job's key, but the store is open. EFA traffic passes beside every policy.
"""

from dataclasses import dataclass, field
from typing import Final

from rtj_api import names
from rtj_operator.render.objects import JobRef, Manifest, metadata, pod_selector

LABEL_NAMESPACE: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Who outside the job may connect."""

    # Namespace and pod labels of the operator. An empty namespace means that it does not run in
    # the cluster: then any address may open the view socket, which demands the job's key.
    operator_namespace: str = ""
    operator_labels: dict[str, str] = field(default_factory=dict[str, str])
    # Namespace whose pods may read the metrics port; "" for none.
    metrics_namespace: str = ""


def network_policy(job: JobRef, peers: Peers) -> Manifest:
    """Everything between the job's pods; the view socket for the operator; metrics if asked."""
    ingress: list[Manifest] = [
        {"from": [{"podSelector": {"matchLabels": pod_selector(job)}}]},
        _view(peers),
    ]
    if peers.metrics_namespace:
        source = {"namespaceSelector": _namespace(peers.metrics_namespace)}
        ingress.append({"from": [source], "ports": _ports(names.PORT_METRICS)})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, names.network_policy(job.name)),
        "spec": {
            "podSelector": {"matchLabels": pod_selector(job)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def _view(peers: Peers) -> Manifest:
    rule: Manifest = {"ports": _ports(names.PORT_VIEW_SOCKET)}
    if not peers.operator_namespace:
        return rule
    # Both in one entry: this namespace and these pods.
    operator = {
        "namespaceSelector": _namespace(peers.operator_namespace),
        "podSelector": {"matchLabels": peers.operator_labels},
    }
    return {"from": [operator]} | rule


def _namespace(name: str) -> Manifest:
    return {"matchLabels": {LABEL_NAMESPACE: name}}


def _ports(number: int) -> list[Manifest]:
    return [{"port": number, "protocol": "TCP"}]
