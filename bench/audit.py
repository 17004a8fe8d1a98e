"""The operator's writes, as the API server's audit log tells them."""

import json
from datetime import datetime
from pathlib import Path

from demo.setup import OPERATOR_NAMESPACE

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:"


def operator_writes(log: Path, since: float) -> list[str]:
    """One line a write of the operator after `since` (Unix seconds), leases left out."""
    found: list[str] = []
    with log.open() as lines:
        for line in lines:
            event = json.loads(line)
            reference = event.get("objectRef", {})
            wanted = (
                event["verb"] in WRITES
                and event["user"]["username"].startswith(USER)
                and event["stage"] == "ResponseComplete"
                and reference.get("resource") != "leases"
            )
            unix = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            if wanted and unix > since:
                kind = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
                found.append(f"{event['verb']} {kind} {reference.get('name', '')}")
    return found
