"""Settings from the environment."""

from pathlib import Path

import pytest

from rtj_operator.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", (), id="empty means all"),
        pytest.param("a", ("a",), id="one"),
        pytest.param("a, b,", ("a", "b"), id="several"),
    ],
)
def test_namespaces(monkeypatch: pytest.MonkeyPatch, text: str, want: tuple[str, ...]) -> None:
    monkeypatch.setenv("RTJ_OPERATOR_NAMESPACES", text)
    assert Settings().namespaces == want


def test_peers_of_the_network_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "rtj-system")
    monkeypatch.setenv("RTJ_OPERATOR_POD_LABELS", '{"app": "x"}')
    peers = Settings().peers
    assert (peers.operator_namespace, peers.operator_labels) == ("rtj-system", {"app": "x"})


def test_two_processes_of_one_pod_have_different_identities() -> None:
    assert Settings().identity != Settings().identity


def test_short_master_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"short\n")
    with pytest.raises(SettingsError, match="holds 5 bytes; at least 32"):
        Settings(master_key_file=path).read_master_key()
