"""etcd, API server, controllers and scheduler on the host, reachable from host and nodes."""

from __future__ import annotations

from pathlib import Path

import yaml

from localcluster import cgroups, shell
from localcluster.api import Api
from localcluster.layout import Layout
from localcluster.pki import Authority
from localcluster.programs import Programs

READY_SECONDS = 60

SYSTEM_USERS = [
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:kube-proxy",
    "system:coredns",
]
SYSTEM_GROUPS = ["system:nodes", "system:serviceaccounts:kube-system"]


def audit_policy() -> dict[str, object]:
    """Record who wrote what; leave out the cluster's own reads, leases and events.

    Tests count the writes of a program that is under test, so everything that is not the cluster
    itself is recorded, reads included.
    """
    noise = [
        {"verbs": ["get", "list", "watch"]},
        {"resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {
            "resources": [
                {"group": group, "resources": ["events"]} for group in ("", "events.k8s.io")
            ]
        },
    ]
    rules: list[dict[str, object]] = []
    for rule in noise:
        rules.append({"level": "None", "users": SYSTEM_USERS, **rule})
        rules.append({"level": "None", "userGroups": SYSTEM_GROUPS, **rule})
    rules.append({"level": "Metadata"})
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules,
    }


def start(layout: Layout, programs: Programs, authority: Authority) -> Api:
    """Start all four and return when the cluster accepts pods."""
    layout.control.mkdir(parents=True, exist_ok=True)
    _issue_certificates(layout, authority)
    _start_etcd(layout, programs)
    _start_api_server(layout, programs, authority)
    api = Api(layout)
    shell.wait_until(
        "API server",
        api.ready,
        seconds=READY_SECONDS,
        log=log_of(layout, "kube-apiserver"),
        last=lambda: api.last_error,
        alive=lambda: alive(layout, "kube-apiserver"),
    )
    _start_controllers(layout, programs, authority)
    _start_scheduler(layout, programs)
    return api


def wait_for_service_accounts(layout: Layout, api: Api) -> None:
    """Without its default account a namespace refuses pods."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    log = log_of(layout, "kube-controller-manager")
    shell.wait_until("service accounts", lambda: api.exists(path), seconds=READY_SECONDS, log=log)


def log_of(layout: Layout, program: str) -> Path:
    return layout.control / f"{program}.log"


def alive(layout: Layout, program: str) -> bool:
    return bool(cgroups.pids(f"{layout.control_group}/{program}"))


def spawn(layout: Layout, program: str, command: list[str | Path]) -> None:
    """Start one program of the control plane in a cgroup of its own name."""
    group = f"{layout.control_group}/{program}"
    cgroups.spawn(command, group=group, log=log_of(layout, program))


def _issue_certificates(layout: Layout, authority: Authority) -> None:
    names = f"IP:127.0.0.1,IP:{layout.host_ip},IP:{layout.service_ip},DNS:localhost"
    services = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    names += "".join(f",DNS:{name}" for name in [*services, "kubernetes.default.svc.cluster.local"])
    authority.issue("apiserver", "/CN=kube-apiserver", names)
    authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    admin = authority.issue("admin", "/O=system:masters/CN=admin")
    authority.kubeconfig(layout.kubeconfig, "admin", admin, host="127.0.0.1")
    for program in ("kube-controller-manager", "kube-scheduler"):
        pair = authority.issue(program, f"/CN=system:{program}")
        path = layout.control / f"{program}.kubeconfig"
        authority.kubeconfig(path, f"system:{program}", pair, host="127.0.0.1")


def _start_etcd(layout: Layout, programs: Programs) -> None:
    client = f"http://127.0.0.1:{layout.etcd_port}"
    peer = f"http://127.0.0.1:{layout.etcd_peer_port}"
    spawn(
        layout,
        "etcd",
        [
            programs["etcd"],
            f"--data-dir={layout.control / 'etcd'}",
            "--unsafe-no-fsync",  # the data dies with the cluster: waiting for disks buys nothing
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ],
    )


def _start_api_server(layout: Layout, programs: Programs, authority: Authority) -> None:
    policy = layout.control / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(audit_policy(), sort_keys=False))
    pki = layout.pki
    spawn(
        layout,
        "kube-apiserver",
        [
            programs["kube-apiserver"],
            f"--etcd-servers=http://127.0.0.1:{layout.etcd_port}",
            "--bind-address=0.0.0.0",
            f"--secure-port={layout.api_port}",
            f"--advertise-address={layout.host_ip}",
            f"--cert-dir={layout.control / 'certificates'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",  # node names are in no DNS
            f"--service-account-key-file={authority.service_account_key}",
            f"--service-account-signing-key-file={authority.service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={layout.service_cidr}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={layout.audit_log}",
        ],
    )


def _start_controllers(layout: Layout, programs: Programs, authority: Authority) -> None:
    kubeconfig = layout.control / "kube-controller-manager.kubeconfig"
    spawn(
        layout,
        "kube-controller-manager",
        [
            programs["kube-controller-manager"],
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={layout.controller_port}",
            f"--cert-dir={layout.control / 'certificates'}",
            f"--root-ca-file={authority.pair.certificate}",
            f"--service-account-private-key-file={authority.service_account_key}",
            f"--cluster-signing-cert-file={authority.pair.certificate}",
            f"--cluster-signing-key-file={authority.pair.key}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--flex-volume-plugin-dir={layout.control / 'volume-plugins'}",  # made if missing
            # A silent node is NotReady after 20 s, half of the default, so that tests are short.
            "--node-monitor-grace-period=20s",
            "--node-monitor-period=2s",
        ],
    )


def _start_scheduler(layout: Layout, programs: Programs) -> None:
    kubeconfig = layout.control / "kube-scheduler.kubeconfig"
    spawn(
        layout,
        "kube-scheduler",
        [
            programs["kube-scheduler"],
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={layout.scheduler_port}",
            f"--cert-dir={layout.control / 'certificates'}",
            "--leader-elect=false",
        ],
    )
