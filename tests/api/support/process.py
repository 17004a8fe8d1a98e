"""The operator as its image runs it: a process of its own, ended by the test that started it."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from tests.children import ending_with_us
from tests.ports import free_port

STOP_SECONDS = 15


class OperatorProcess:
    """One `rtj-operator`. Use as a context manager."""

    def __init__(self, folder: Path, name: str, environment: dict[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.probe_port, self.metrics_port = free_port(), free_port()
        self._environment = {
            **{k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "VIRTUAL_ENV")},
            "RTJ_OPERATOR_IDENTITY": name,
            "RTJ_OPERATOR_BIND_HOST": "127.0.0.1",
            "RTJ_OPERATOR_PROBE_PORT": str(self.probe_port),
            "RTJ_OPERATOR_METRICS_PORT": str(self.metrics_port),
            "RTJ_OPERATOR_LOG_LEVEL": "debug",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ending_with_us([sys.executable, "-m", "rtj_operator.main"]),
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL, as a node's death does it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)

    def terminate(self) -> int:
        """SIGTERM, as the kubelet does it; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_SECONDS)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def rss_mb(self) -> float:
        """Resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the operator is not running")

    def metrics(self) -> dict[str, float]:
        """Samples of /metrics, by name with labels."""
        out: dict[str, float] = {}
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            for line in answer.read().decode().splitlines():
                if not line.startswith("#"):
                    name, _, value = line.rpartition(" ")
                    out[name] = float(value)
        return out

    def log_lines(self, text: str) -> list[str]:
        """Lines of its log that hold a text."""
        return [line for line in self.log.read_text().splitlines() if text in line]

    def probe(self, path: str) -> int:
        """Status code of /healthz or /readyz; 0 while nobody answers."""
        try:
            port = self.probe_port if path == "/healthz" else self.metrics_port
            url = f"http://127.0.0.1:{port}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
