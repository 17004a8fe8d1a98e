"""The few things the demo and the benchmarks ask of the API server."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kubernetes import client, config

from rtj_api import names

TIMEOUT = (5, 30)


class Kube:
    """One cluster, reached with a kubeconfig: the kubernetes client, and kubectl and helm as a user
    runs them."""

    def __init__(
        self, kubeconfig: Path, program: Callable[[str], Path], namespace: str = "default"
    ) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._program = program
        api = config.new_client_from_config(str(kubeconfig))
        self._core = client.CoreV1Api(api)
        self._custom = client.CustomObjectsApi(api)

    def run(self, program: str, *args: str, check: bool = True, stdin: str = "") -> str:
        """Output of kubectl or helm; raises with what it said on stderr when it fails."""
        done = subprocess.run(
            [self._program(program), "--kubeconfig", self.kubeconfig, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"{program} {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def kubectl(self, *args: str, check: bool = True, stdin: str = "") -> str:
        """kubectl in the demo's namespace."""
        return self.run("kubectl", "-n", self.namespace, *args, check=check, stdin=stdin)

    def job(self, name: str) -> dict[str, Any]:
        """The ResilientTrainingJob as the server has it."""
        return self._custom.get_namespaced_custom_object(  # type: ignore[return-value]
            names.GROUP,
            names.VERSION,
            self.namespace,
            names.PLURAL,
            name,
            _request_timeout=TIMEOUT,
        )

    def watch_job(self, name: str) -> Iterator[dict[str, Any]]:
        """The job now and at each change, until the server ends the watch."""
        from kubernetes.watch import Watch

        stream = Watch().stream(
            self._custom.list_namespaced_custom_object,
            names.GROUP,
            names.VERSION,
            self.namespace,
            names.PLURAL,
            field_selector=f"metadata.name={name}",
            timeout_seconds=300,
            _request_timeout=(5, 305),
        )
        for event in stream:
            yield event["object"]  # type: ignore[index]

    def pods(self, job: str) -> list[Any]:
        """The job's pods."""
        selector = f"{names.LABEL_JOB}={job}"
        return self._core.list_namespaced_pod(
            self.namespace, label_selector=selector, _request_timeout=TIMEOUT
        ).items

    def log_lines(self, pod: str, container: str) -> Iterator[str]:
        """Lines of a container's log from its start, each with the runtime's time in front;
        follows until the container ends, and raises when it cannot be read (yet)."""
        # Typed as the text that it is with preloaded content.
        response: Any = self._core.read_namespaced_pod_log(
            pod,
            self.namespace,
            container=container,
            follow=True,
            timestamps=True,
            _preload_content=False,
            _request_timeout=(5, 600),
        )
        buffer = b""
        for chunk in response.stream(4096):
            *lines, buffer = (buffer + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
