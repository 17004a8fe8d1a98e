"""kubectl and helm as a user runs them, against the test's API server."""

import subprocess
from typing import Final

from tests.api.support.server import ApiServer

TIMEOUT_SECONDS: Final = 60.0


class Kubectl:
    """Programs as the administrator; callers look at the exit code themselves."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._kubeconfig = server.kubeconfig(server.admin_token, "admin")
        self._home = server.folder / "kubectl-home"

    def __call__(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """kubectl."""
        return self.run("kubectl", *args, stdin=stdin)

    def run(self, program: str, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """One of the pinned programs."""
        return subprocess.run(
            [self._server.program(program), "--kubeconfig", self._kubeconfig, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env={"HOME": str(self._home), "PATH": "/usr/bin:/bin"},
        )
