"""Instances share nothing: every name, address and port follows from the number."""

from __future__ import annotations

import ipaddress

import pytest

from localcluster.layout import MAX_INSTANCE, MAX_NODES, Layout


def _ports(layout: Layout) -> set[int]:
    return {
        layout.api_port,
        layout.etcd_port,
        layout.etcd_peer_port,
        layout.controller_port,
        layout.scheduler_port,
        layout.dns_ready_port,
    }


def test_two_instances_have_no_port_in_common() -> None:
    assert _ports(Layout(0)).isdisjoint(_ports(Layout(1)))
    assert len(_ports(Layout(0))) == 6


def test_networks_of_all_instances_are_apart() -> None:
    layouts = [Layout(number) for number in range(MAX_INSTANCE + 1)]
    networks = [ipaddress.ip_network(layout.subnet) for layout in layouts]
    networks += [ipaddress.ip_network(layout.service_cidr) for layout in layouts]
    assert len(set(networks)) == 2 * (MAX_INSTANCE + 1)


def test_prefix_of_one_instance_is_no_prefix_of_another() -> None:
    assert not Layout(10).bridge.startswith(f"{Layout(1).prefix}-")


def test_interface_names_fit_the_kernel() -> None:
    layout = Layout(MAX_INSTANCE)
    assert len(layout.node_key(f"n{MAX_NODES}")) <= 15
    assert len(layout.bridge) <= 15


def test_addresses_of_host_nodes_and_pods_are_apart() -> None:
    layout = Layout(3)
    subnet = ipaddress.ip_network(layout.subnet)
    taken = [layout.host_ip]
    for index in range(1, MAX_NODES + 1):
        taken += [layout.node_ip(index), *layout.pod_range(index)]
    assert len(set(taken)) == len(taken)
    assert all(ipaddress.ip_address(address) in subnet for address in taken)


@pytest.mark.parametrize("number", [-1, MAX_INSTANCE + 1])
def test_refuses_an_instance_without_addresses(number: int) -> None:
    with pytest.raises(ValueError, match=f"not {number}"):
        Layout(number)
