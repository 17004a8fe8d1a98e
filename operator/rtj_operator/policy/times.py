"""Times as Kubernetes writes them: RFC 3339, UTC, whole seconds; inside, Unix seconds."""

from datetime import UTC, datetime

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def rfc3339(unix: float) -> str:
    """The second in which `unix` lies."""
    return datetime.fromtimestamp(int(unix), UTC).strftime(_FORMAT)


def unix(text: str) -> float:
    """Unix seconds of an RFC 3339 time; raises ValueError for anything else."""
    return datetime.fromisoformat(text).timestamp()
