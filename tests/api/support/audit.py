"""What was asked of the API server, from its own audit log."""

import json
from dataclasses import dataclass
from pathlib import Path

READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int


def writes(log: Path, namespace: str | None, resource: str = "") -> list[Request]:
    """Requests in a namespace (None: anywhere) that change something, by service accounts (the
    operator)."""
    found = (_read(line) for line in log.read_text().splitlines())
    return [
        request
        for request in found
        if request.user.startswith("system:serviceaccount:")
        and request.verb not in READS
        and namespace in (None, request.namespace)
        and resource in ("", request.resource)
    ]


def _read(line: str) -> Request:
    entry = json.loads(line)
    what = entry.get("objectRef", {})
    return Request(
        # A request whose token was refused is nobody's.
        user=entry["user"].get("username", ""),
        verb=entry["verb"],
        resource=what.get("resource", ""),
        subresource=what.get("subresource", ""),
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
    )
