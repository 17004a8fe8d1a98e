"""The agent as a process: what it imports, how it starts wrong, and that SIGTERM always ends it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from rtj_api import names
from rtj_api.messages import TerminationMessage

_ADDRESS = "127.0.0.81"
_COMMAND = [sys.executable, "-m", "rtj_trainer.agent.main", "--", "train.py"]


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    # Short, for the health socket's path.
    with tempfile.TemporaryDirectory(prefix="rtj") as name:
        folder = Path(name)
        (folder / "key").write_text("ab" * 32)
        yield {
            **os.environ,
            names.ENV_JOB_NAME: "llama",
            names.ENV_JOB_UID: "uid",
            names.ENV_SLOT: "0",
            names.ENV_INCARNATION: "0",
            names.ENV_POD_NAME: "llama-worker-0-0",
            names.ENV_POD_UID: "pod",
            names.ENV_POD_IP: _ADDRESS,
            # Nobody listens there.
            names.ENV_COORDINATOR_HOST: "127.0.0.82",
            names.ENV_PROCESSES_PER_NODE: "1",
            names.ENV_DEVICE: "cpu",
            names.ENV_KEY_FILE: str(folder / "key"),
            names.ENV_RUN_DIR: name,
            names.ENV_SHM_DIR: str(folder / "shm"),
            names.ENV_TERMINATION_LOG: str(folder / "last-words"),
            names.ENV_METRICS_HOST: _ADDRESS,
        }


def _last_words(environment: dict[str, str]) -> TerminationMessage:
    data = Path(environment[names.ENV_TERMINATION_LOG]).read_bytes()
    return msgspec.json.decode(data, type=TerminationMessage)


def _lives(process: psutil.Process) -> bool:
    # Without an init process nobody buries orphans.
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _get(path: str) -> str:
    url = f"http://{_ADDRESS}:{names.PORT_METRICS}/{path}"
    with urllib.request.urlopen(url, timeout=5) as response:
        return response.read().decode()


def _answers(path: str) -> bool:
    try:
        return bool(_get(path))
    except OSError:
        return False


# Before the handler's imports, in the midst of them, and with the launcher importing torch.
@pytest.mark.parametrize("after_seconds", [0.15, 0.4, 0.7, 1.0, 1.6, 3.0])
def test_sigterm_ends_it_at_any_moment_with_all_it_started(
    environment: dict[str, str], after_seconds: float
):
    agent = subprocess.Popen(_COMMAND, env=environment)
    try:
        time.sleep(after_seconds)
        below = psutil.Process(agent.pid).children(recursive=True)
        agent.send_signal(signal.SIGTERM)
        # Before the very first instructions the default action ends it; as PID 1 those are ignored.
        assert agent.wait(timeout=3) in (0, -signal.SIGTERM)
        _wait_until(lambda: not any(map(_lives, below)))
    finally:
        agent.kill()
        agent.wait()


def test_parked_agent_serves_metrics_and_leaves_its_word(environment: dict[str, str]):
    agent = subprocess.Popen(_COMMAND, env=environment)
    try:
        _wait_until(lambda: _answers("healthz"))
        assert "rtj_agent_launches_total 0.0" in _get("metrics")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=3) == 0
        assert _last_words(environment).outcome == "stopped"
    finally:
        agent.kill()
        agent.wait()


def test_unusable_environment_is_a_failure_with_a_reason(environment: dict[str, str]):
    del environment[names.ENV_POD_UID]
    result = subprocess.run(_COMMAND, env=environment, timeout=10, check=False)
    assert result.returncode == 1
    words = _last_words(environment)
    assert words.outcome == "failed"
    assert "RTJ_POD_UID is not set" in words.message


def test_agent_imports_no_torch():
    code = "import sys, rtj_trainer.agent.agent; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=30, check=True)
