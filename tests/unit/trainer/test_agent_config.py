"""The agent's environment and the container's command: what is taken, what is refused and how."""

import sys
from pathlib import Path

import pytest

from rtj_api import names
from rtj_trainer.agent.config import ConfigError, launch_command, load


def _environment(tmp_path: Path) -> dict[str, str]:
    key = tmp_path / "key"
    key.write_text("ab" * 32 + "\n")
    return {
        names.ENV_JOB_NAME: "llama",
        names.ENV_JOB_UID: "uid",
        names.ENV_SLOT: "3",
        names.ENV_INCARNATION: "2",
        names.ENV_POD_NAME: "llama-worker-3-2",
        names.ENV_POD_UID: "pod",
        names.ENV_POD_IP: "10.0.0.7",
        names.ENV_COORDINATOR_HOST: "llama-coordinator",
        names.ENV_PROCESSES_PER_NODE: "8",
        names.ENV_DEVICE: "cpu",
        names.ENV_GRACE_SECONDS: "120",
        names.ENV_KEY_FILE: str(key),
    }


@pytest.mark.parametrize(
    ("given", "launched"),
    [
        (["--", "python", "train.py", "--lr", "1"], ("train.py", "--lr", "1")),
        (["/usr/bin/python3", "-u", "train.py"], ("train.py",)),
        (["python", "-m", "pkg.train", "-x"], ("-m", "pkg.train", "-x")),
        (["-m", "pkg.train"], ("-m", "pkg.train")),
        (["train.py"], ("train.py",)),
        (["./train.sh", "python"], ("--no-python", "./train.sh", "python")),
        (["python", "-c", "print()"], ("--no-python", sys.executable, "-c", "print()")),
        (["-c", "print()", "-x"], ("--no-python", sys.executable, "-c", "print()", "-x")),
        (["bash", "-c", "exit 1"], ("--no-python", "bash", "-c", "exit 1")),
    ],
)
def test_command_becomes_launcher_arguments(given: list[str], launched: tuple[str, ...]):
    assert launch_command(given) == launched


@pytest.mark.parametrize("given", [[], ["--"], ["python"]])
def test_command_that_cannot_be_launched_is_refused_with_advice(given: list[str]):
    with pytest.raises(ConfigError, match="container trainer"):
        launch_command(given)


def test_environment_of_the_operator_is_enough(tmp_path: Path):
    config = load(_environment(tmp_path), ["train.py"])
    assert (config.slot, config.incarnation, config.processes_per_node) == (3, 2, 8)
    assert config.key == bytes.fromhex("ab" * 32)
    assert config.health_socket == Path("/run/rtj/health.sock")
    assert (config.worker_port, config.store_port, config.metrics_port) == (29600, 29500, 29602)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (names.ENV_SLOT, None, "RTJ_SLOT is not set"),
        (names.ENV_SLOT, "-1", "RTJ_SLOT='-1' is not a whole number"),
        (names.ENV_KEY_FILE, "/nowhere/key", "/nowhere/key cannot be read"),
    ],
)
def test_bad_environment_names_the_variable(
    tmp_path: Path, variable: str, value: str | None, message: str
):
    environment = _environment(tmp_path)
    del environment[variable]
    if value is not None:
        environment[variable] = value
    with pytest.raises(ConfigError, match=message):
        load(environment, ["train.py"])


def test_short_key_is_refused(tmp_path: Path):
    environment = _environment(tmp_path)
    Path(environment[names.ENV_KEY_FILE]).write_text("abcd")
    with pytest.raises(ConfigError, match="2 bytes, not 32"):
        load(environment, ["train.py"])
