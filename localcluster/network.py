"""One flat network: a bridge on the host, one network namespace a node, nodes' bridges as ports.

Host, nodes and pods are on one Ethernet segment and reach each other without routes.
"""

from __future__ import annotations

import json
from pathlib import Path

from localcluster import shell
from localcluster.layout import Layout

NAMESPACES = Path("/run/netns")


def _ip_batch(*commands: str) -> None:
    shell.run(["ip", "-batch", "-"], stdin="\n".join(commands) + "\n")


def namespace(layout: Layout, node: str) -> Path:
    return NAMESPACES / layout.node_key(node)


def create_bridge(layout: Layout) -> None:
    _ip_batch(
        f"link add {layout.bridge} type bridge",
        f"addr add {layout.host_ip}/16 dev {layout.bridge}",
        f"link set {layout.bridge} up",
    )


def create_node(layout: Layout, node: str, index: int) -> None:
    """Give the node a namespace whose bridge `cni0` holds its pods and its link to the host."""
    key = layout.node_key(node)
    _ip_batch(
        f"netns add {key}",
        f"link add {key} type veth peer name eth0 netns {key}",
        f"link set {key} master {layout.bridge} up",
    )
    shell.run(
        ["ip", "-n", key, "-batch", "-"],
        stdin="\n".join(
            [
                "link set lo up",
                "link add cni0 type bridge",
                f"addr add {layout.node_ip(index)}/16 dev cni0",
                "link set cni0 up",
                "link set eth0 master cni0 up",
                f"route add default via {layout.host_ip}",
                "",
            ]
        ),
    )
    # Pods send what goes to a ClusterIP through their node, which must forward it, and must not
    # advise them to go straight to an address that only exists in the node's rules.
    script = "cd /proc/sys/net/ipv4 && echo 1 > ip_forward && echo 0 | tee conf/*/send_redirects"
    shell.run(["nsenter", f"--net={namespace(layout, node)}", "sh", "-c", script])


def delete_node(layout: Layout, node: str) -> None:
    key = layout.node_key(node)
    shell.run(["ip", "link", "del", key], check=False)
    shell.run(["ip", "netns", "del", key], check=False)


def set_link(layout: Layout, node: str, *, up: bool) -> None:
    shell.run(["ip", "link", "set", layout.node_key(node), "up" if up else "down"])


def link_is_up(layout: Layout, node: str) -> bool:
    done = shell.run(["ip", "-j", "link", "show", layout.node_key(node)], check=False)
    return done.returncode == 0 and "UP" in json.loads(done.stdout)[0]["flags"]


def leftovers(layout: Layout) -> tuple[list[str], list[str]]:
    """Links and namespaces of this instance that exist, whoever made them."""
    links = json.loads(shell.run(["ip", "-j", "link", "show"]).stdout)
    prefix = f"{layout.prefix}-"
    names = [link["ifname"] for link in links if link["ifname"].startswith(prefix)]
    spaces = [path.name for path in NAMESPACES.glob(f"{prefix}*")]
    return names, spaces
