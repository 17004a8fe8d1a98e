"""A node: containerd, kubelet and kube-proxy in a network and a mount namespace of their own.

In its mount namespace a node has its own /var/lib/kubelet, /var/lib/containerd and so on, as a
machine would: programs use their default paths, nodes do not meet, and all mounts of a node are
gone when its last process is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from localcluster import cgroups, network, shell
from localcluster.errors import LocalClusterError
from localcluster.layout import Layout
from localcluster.pki import Authority
from localcluster.programs import Programs

READY_SECONDS = 60
# Folder in the node -> folder in the node's state. They are mounted over the host's.
MOUNTS = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/containerd": "containerd",
    "/var/lib/cni": "cni/lib",
    "/var/log/pods": "log/pods",
    "/var/log/containers": "log/containers",
    "/run/containerd": "run/containerd",
    "/run/netns": "run/netns",
}
# containerd is the first process of a node. Its mount namespace is shared only within the node
# (private first, then shared anew), so that kubelet's mounts reach containers and not the host.
FIRST = """\
echo $$ > "$1" && shift
while [ "$1" != -- ]; do mount --bind "$2" "$1" && shift 2 || exit 1; done
shift
mount --make-rshared / && exec "$@"
"""


@dataclass(frozen=True)
class NodeSpec:
    """What a node is started with."""

    name: str
    index: int
    zone: str
    instance_type: str = "cpu"


def start_runtime(layout: Layout, node: NodeSpec) -> None:
    """Create the node's namespaces and start containerd; needs no control plane."""
    folder = layout.node(node.name)
    for part in MOUNTS.values():
        (folder / part).mkdir(parents=True, exist_ok=True)
    network.create_node(layout, node.name, node.index)
    cgroups.create(layout.node_key(node.name))
    _write_cni(layout, node)
    config = folder / "containerd.toml"
    config.write_text(_containerd_config(layout, node))
    mounts: list[str | Path] = []
    for target, source in MOUNTS.items():
        Path(target).mkdir(parents=True, exist_ok=True)
        mounts += [target, folder / source]
    enter: list[str | Path] = [
        "nsenter",
        f"--net={network.namespace(layout, node.name)}",
        "unshare", "--mount", "--propagation", "private",
        "sh", "-c", FIRST, "sh", folder / "containerd.pid", *mounts, "--",
    ]  # fmt: skip
    _spawn(layout, node.name, "containerd", [*enter, "containerd", "--config", config])
    shell.wait_until(
        f"containerd of {node.name}",
        lambda: shell.run([*ctr(layout, node.name), "version"], check=False).returncode == 0,
        seconds=READY_SECONDS,
        log=log_of(layout, node.name, "containerd"),
    )


def start_agents(layout: Layout, programs: Programs, authority: Authority, node: NodeSpec) -> None:
    """Start kubelet and kube-proxy in the node's namespaces; needs the API server."""
    folder = layout.node(node.name)
    enter = _enter(layout, node.name)
    user = f"system:node:{node.name}"
    pair = authority.issue(f"kubelet-{node.name}", f"/O=system:nodes/CN={user}")
    kubeconfig = authority.kubeconfig(folder / "kubeconfig", user, pair, host=layout.host_ip)
    config = folder / "kubelet.yaml"
    config.write_text(yaml.safe_dump(kubelet_config(layout, node), sort_keys=False))
    labels = {
        "topology.kubernetes.io/zone": node.zone,
        "node.kubernetes.io/instance-type": node.instance_type,
    }
    kubelet: list[str | Path] = [
        programs["kubelet"],
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={node.name}",
        f"--node-ip={layout.node_ip(node.index)}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
    ]
    _spawn(layout, node.name, "kubelet", [*enter, *kubelet])
    proxy_pair = authority.issue(f"kube-proxy-{node.name}", "/CN=system:kube-proxy")
    proxy_config = folder / "kube-proxy.kubeconfig"
    authority.kubeconfig(proxy_config, "system:kube-proxy", proxy_pair, host=layout.host_ip)
    proxy: list[str | Path] = [
        programs["kube-proxy"],
        f"--kubeconfig={proxy_config}",
        f"--hostname-override={node.name}",
        "--proxy-mode=iptables",
        # On a flat network the answer would reach the pod without passing the node that
        # translated its request; with the node as sender it comes back to be translated.
        "--masquerade-all",
        "--conntrack-max-per-core=0",  # belongs to the host, not to a network namespace
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
    ]
    _spawn(layout, node.name, "kube-proxy", [*enter, *proxy])


def ctr(layout: Layout, name: str) -> list[str | Path]:
    """The command line of containerd's client for the images and containers of a node."""
    socket = layout.node(name) / "run/containerd/containerd.sock"
    return ["ctr", "--address", socket, "--namespace", "k8s.io"]


def log_of(layout: Layout, name: str, program: str) -> Path:
    return layout.node(name) / f"{program}.log"


def _spawn(layout: Layout, name: str, program: str, command: list[str | Path]) -> None:
    group = f"{layout.node_key(name)}/{program}"
    cgroups.spawn(command, group=group, log=log_of(layout, name, program))


def _enter(layout: Layout, name: str) -> list[str | Path]:
    """Prefix that runs a command in the node's namespaces."""
    pid = int((layout.node(name) / "containerd.pid").read_text())
    if pid not in cgroups.pids(f"{layout.node_key(name)}/containerd"):
        log = log_of(layout, name, "containerd")
        raise LocalClusterError(f"containerd of node {name} has ended; read {log}")
    return ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt"]


def _containerd_config(layout: Layout, node: NodeSpec) -> str:
    # AppArmor and raising the OOM score need rights that a container or a small VM may lack.
    return f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "{layout.node_ip(node.index)}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{layout.node(node.name) / "cni/conf"}"
"""


def _write_cni(layout: Layout, node: NodeSpec) -> None:
    first, last = layout.pod_range(node.index)
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [
                [
                    {
                        "subnet": layout.subnet,
                        "rangeStart": first,
                        "rangeEnd": last,
                        "gateway": layout.node_ip(node.index),
                    }
                ]
            ],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    chain = {"cniVersion": "1.0.0", "name": layout.node_key(node.name), "plugins": [bridge]}
    folder = layout.node(node.name) / "cni/conf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "10-bridge.conflist").write_text(json.dumps(chain, indent=2))


def kubelet_config(layout: Layout, node: NodeSpec) -> dict[str, object]:
    """KubeletConfiguration of a node."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.node_ip(node.index),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},  # only holders of our certificates get here
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        # Kubelets that share a root would kill each other's pods as strays.
        "cgroupRoot": f"/{layout.node_key(node.name)}",
        "clusterDNS": [layout.host_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "healthzPort": 0,
        "failSwapOn": False,
        "serializeImagePulls": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # The disk is the machine's: how full it is says nothing about this node.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "memory.available": "50Mi",
        },
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 10,
    }
