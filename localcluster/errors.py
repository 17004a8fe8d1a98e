"""Errors of this package: each message names the object and the next step."""

from __future__ import annotations

from pathlib import Path


class LocalClusterError(Exception):
    """Base of all errors that a user of the local cluster can meet."""


class CommandFailed(LocalClusterError):
    """A program that we ran ended with a failure."""

    def __init__(self, command: list[str], code: int, output: str) -> None:
        tail = "\n".join(output.strip().splitlines()[-15:])
        super().__init__(f"`{' '.join(command)[:300]}` ended with code {code}:\n{tail}")
        self.code = code
        self.output = output


class NotReady(LocalClusterError):
    """Something did not become ready before its deadline."""

    def __init__(self, what: str, seconds: float, log: Path | None, last: str = "") -> None:
        where = f"; read {log}" if log else ""
        cause = f" (last answer: {last})" if last else ""
        super().__init__(f"{what} was not ready after {seconds:.0f} s{cause}{where}")


class Died(LocalClusterError):
    """A program that we wait for has ended."""

    def __init__(self, what: str, log: Path | None) -> None:
        super().__init__(f"{what} has ended; read {log}" if log else f"{what} has ended")


class UnknownNode(LocalClusterError):
    """A fault or restart names a node that this cluster does not have."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"no node {name!r}; this cluster has {', '.join(known) or 'no nodes'}")


class ClusterDown(LocalClusterError):
    """The cluster that a command needs is not running."""

    def __init__(self, instance: int) -> None:
        super().__init__(
            f"cluster {instance} is not running; start it with "
            f"`python -m localcluster --instance {instance} up`"
        )


class UnknownContainer(LocalClusterError):
    """A fault names a container that does not run on the node."""

    def __init__(self, node: str, namespace: str, pod: str, container: str) -> None:
        super().__init__(
            f"node {node} runs no container {container!r} of pod {namespace}/{pod}; "
            f"see `kubectl get pods -A -o wide`"
        )
