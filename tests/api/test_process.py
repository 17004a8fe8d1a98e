"""The process itself: settings, probes, memory."""

from pathlib import Path

from tests.api.conftest import OperatorFactory
from tests.api.support.api import until
from tests.api.support.process import OperatorProcess


async def ended(process: OperatorProcess) -> int:
    """Wait for its end; returns the exit code."""

    async def over() -> bool:
        return process.returncode is not None

    await until(f"{process.name} ends", over)
    assert process.returncode is not None
    return process.returncode


async def test_missing_master_key_is_named(operators: OperatorFactory, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    process = operators(RTJ_OPERATOR_MASTER_KEY_FILE=missing)
    assert await ended(process) == 2
    (line,) = process.log_lines("RTJ_OPERATOR_MASTER_KEY_FILE")
    assert missing in line


async def test_bad_setting_is_named(operators: OperatorFactory) -> None:
    process = operators(RTJ_OPERATOR_LOG_FORMAT="xml")
    assert await ended(process) == 2
    assert process.log_lines("RTJ_OPERATOR_LOG_FORMAT: Input should be 'text' or 'json'")


async def test_no_credentials_are_told(operators: OperatorFactory, tmp_path: Path) -> None:
    process = operators(KUBECONFIG="", HOME=str(tmp_path))
    assert await ended(process) == 2
    assert process.log_lines("no credentials for the API server")


async def test_operator_alone_is_alive_ready_and_small(operator: OperatorProcess) -> None:
    assert (operator.probe("/healthz"), operator.probe("/readyz")) == (200, 200)
    assert operator.rss_mb() <= 120
