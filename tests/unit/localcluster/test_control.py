"""Configuration of control plane and kubelets, and the errors of waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from localcluster import shell
from localcluster.controlplane import SYSTEM_USERS, audit_policy
from localcluster.errors import CommandFailed, Died, NotReady
from localcluster.layout import Layout
from localcluster.node import NodeSpec, kubelet_config


def test_the_audit_log_keeps_every_request_of_a_program_under_test() -> None:
    rules = cast("list[dict[str, Any]]", audit_policy()["rules"])
    *silenced, last = rules
    assert last == {"level": "Metadata"}
    assert all(rule["level"] == "None" for rule in silenced)
    assert all("users" in rule or "userGroups" in rule for rule in silenced)
    assert not any("serviceaccounts:default" in str(rule) for rule in silenced)


def test_the_audit_log_keeps_writes_of_the_cluster_itself() -> None:
    rules = cast("list[dict[str, Any]]", audit_policy()["rules"])
    for rule in rules:
        if rule.get("users") == SYSTEM_USERS and "resources" not in rule:
            assert set(rule["verbs"]) == {"get", "list", "watch"}


def test_kubelets_have_cgroup_roots_of_their_own() -> None:
    layout = Layout(2)
    roots = {
        kubelet_config(layout, NodeSpec(f"n{index}", index, "local-a"))["cgroupRoot"]
        for index in (1, 2)
    }
    assert roots == {"/rtj2-n1", "/rtj2-n2"}


def test_waiting_in_vain_names_the_log_and_the_last_answer() -> None:
    with pytest.raises(NotReady, match=r"etcd was not ready after 0 s \(last answer: no\).*/log"):
        shell.wait_until("etcd", lambda: False, seconds=0, log=Path("/log"), last=lambda: "no")


def test_waiting_for_the_dead_ends_at_once() -> None:
    with pytest.raises(Died, match=r"etcd has ended; read /log"):
        shell.wait_until("etcd", lambda: False, seconds=60, log=Path("/log"), alive=lambda: False)


def test_a_failed_program_shows_its_command_and_output() -> None:
    with pytest.raises(CommandFailed, match=r"(?s)`sh -c .*` ended with code 3:.*too bad"):
        shell.run(["sh", "-c", "echo too bad >&2; exit 3"])


def test_a_stream_hands_over_each_line_and_keeps_a_log(tmp_path: Path) -> None:
    lines: list[str] = []
    shell.stream(["printf", "a\\nb\\n"], lines.append, log=tmp_path / "log")
    assert lines == ["a", "b"]
    assert (tmp_path / "log").read_text() == "a\nb\n"
