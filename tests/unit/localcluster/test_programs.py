"""Where the pinned programs come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster import programs
from localcluster.errors import LocalClusterError


def _install(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)


def _cached(cache: Path, names: list[str]) -> Path:
    folder = cache / "rtj/tools" / programs.cache_key(names)
    _install(folder, names)
    return folder


def test_a_cache_of_the_same_pins_is_used_without_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", "")  # a build would fail
    folder = _cached(tmp_path, list(programs.PACKAGES))
    assert programs.ensure()["etcd"] == folder / "etcd"


def test_envtest_programs_come_from_kubebuilder_assets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    _install(assets, list(programs.ENVTEST))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rest = [name for name in programs.PACKAGES if name not in programs.ENVTEST]
    folder = _cached(tmp_path, rest)
    found = programs.ensure()
    assert found["kube-apiserver"] == assets / "kube-apiserver"
    assert found["kubelet"] == folder / "kubelet"


def test_incomplete_kubebuilder_assets_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path / "assets", ["etcd", "kubectl"])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(LocalClusterError, match="has no kube-apiserver"):
        programs.ensure()


def test_without_go_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LocalClusterError, match="install Go"):
        programs.ensure()


def test_every_program_is_pinned_as_a_tool() -> None:
    tools = (programs.TOOLS / "go.mod").read_text()
    assert [name for name, package in programs.PACKAGES.items() if package not in tools] == []


def test_kwok_is_pinned_in_a_module_of_its_own() -> None:
    assert f"tool {programs.KWOK_PACKAGE}\n" in (programs.KWOK_TOOLS / "go.mod").read_text()


def test_a_cached_kwok_is_used_without_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")  # a build would fail
    with pytest.raises(LocalClusterError, match="install Go"):
        programs.ensure_kwok()
    _install(programs.kwok_path().parent, ["kwok"])
    assert programs.ensure_kwok() == programs.kwok_path()
