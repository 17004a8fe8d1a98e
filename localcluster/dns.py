"""CoreDNS on the bridge's address: it answers for Services and pods, and for nothing else."""

from __future__ import annotations

import http.client

from localcluster import controlplane, shell
from localcluster.api import Api
from localcluster.layout import Layout
from localcluster.pki import Authority
from localcluster.programs import Programs

DOMAIN = "cluster.local"
USER = "system:coredns"
READY_SECONDS = 30
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def start(layout: Layout, programs: Programs, authority: Authority, api: Api) -> None:
    """Start CoreDNS; it needs the API server, so `wait_ready` is apart."""
    _allow(api)
    pair = authority.issue("coredns", f"/CN={USER}")
    kubeconfig = layout.control / "coredns.kubeconfig"
    authority.kubeconfig(kubeconfig, USER, pair, host="127.0.0.1")
    corefile = layout.control / "Corefile"
    corefile.write_text(_corefile(layout, str(kubeconfig)))
    controlplane.spawn(layout, "coredns", [programs["coredns"], f"-conf={corefile}"])


def wait_ready(layout: Layout) -> None:
    log = controlplane.log_of(layout, "coredns")
    shell.wait_until(
        "CoreDNS",
        lambda: _ready(layout),
        seconds=READY_SECONDS,
        log=log,
        alive=lambda: controlplane.alive(layout, "coredns"),
    )


def _ready(layout: Layout) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", layout.dns_ready_port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _corefile(layout: Layout, kubeconfig: str) -> str:
    # Caching is short, because tests watch names move to new pods. Pods have no way out of the
    # machine, so other names get a clear "no such name" and not the silence of a dead forwarder.
    return f"""\
{DOMAIN}:53 in-addr.arpa:53 {{
    bind {layout.host_ip}
    errors
    ready 127.0.0.1:{layout.dns_ready_port}
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        fallthrough in-addr.arpa
        ttl 1
    }}
    loadbalance
}}
.:53 {{
    bind {layout.host_ip}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def _allow(api: Api) -> None:
    """Let CoreDNS read what it publishes."""
    api.create(
        f"{RBAC}/clusterroles",
        {
            "metadata": {"name": USER},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                },
            ],
        },
    )
    api.create(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": USER},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": USER,
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        },
    )
