"""A real etcd and kube-apiserver on free loopback ports; nothing else of a cluster runs."""

import base64
import json
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from localcluster import programs
from tests import children
from tests.ports import free_port

READY_SECONDS = 60
STOP_SECONDS = 30


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as answer:
        return json.load(answer)


class ApiServer:
    """Starts both in `folder`; `stop` ends them. `without`: admission plugins that are left out
    because the controller that they count on does not run."""

    def __init__(self, folder: Path, without: Sequence[str] = ()) -> None:
        self.folder = folder
        # Without controllers there is no default service account.
        self._without = ("ServiceAccount", *without)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.admin_token = secrets.token_hex(16)
        self.audit_log = folder / "audit.log"
        self._programs = programs.ensure()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._etcd_port, self._peer_port = free_port(), free_port()

    def start(self) -> None:
        """Start, and return when the API server is ready."""
        self._spawn("etcd", self._etcd())
        self.start_api_server()

    def start_api_server(self) -> None:
        """Start the API server alone."""
        self._spawn("kube-apiserver", self._api_server())
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            if time.monotonic() > deadline or self._processes[-1].poll() is not None:
                raise RuntimeError(f"API server is not ready, see {self.folder}/kube-apiserver.log")
            time.sleep(0.1)

    def kill_api_server(self) -> None:
        """End the API server hard; etcd keeps what was written."""
        process = self._processes.pop()
        process.kill()
        process.wait(STOP_SECONDS)

    def compact(self) -> None:
        """Have etcd forget all history up to now, by its HTTP gateway."""
        root = f"http://127.0.0.1:{self._etcd_port}/v3"
        found = _post(f"{root}/kv/range", {"key": base64.b64encode(b"/").decode()})
        revision = found["header"]["revision"]
        _post(f"{root}/kv/compaction", {"revision": revision, "physical": True})

    def stop(self) -> None:
        """End both."""
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait(STOP_SECONDS)
        self._processes.clear()

    def kubeconfig(self, token: str, name: str, url: str = "") -> Path:
        """A kubeconfig for whoever has that token; `url` leads there by a detour."""
        path = self.folder / f"{name}.kubeconfig"
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": url or self.url, "insecure-skip-tls-verify": True},
                }
            ],
            "users": [{"name": "test", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def program(self, name: str) -> Path:
        """Path of one of the pinned programs."""
        return self._programs[name]

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes.append(children.start([self._programs[name], *command], log))

    def _ready(self) -> bool:
        context = ssl._create_unverified_context()
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.admin_token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=2, context=context) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ]

    def _api_server(self) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        key = self.folder / "service-account.key"
        if not key.exists():
            subprocess.run(
                ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
            )
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(
            json.dumps(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived"],
                    "rules": [{"level": "Metadata"}],
                }
            )
        )
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={','.join(self._without)}",
            "--allow-privileged=true",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
        ]
