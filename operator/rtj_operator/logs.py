"""Log records as text or JSON, each with the job it is about."""

import contextlib
import contextvars
import json
import logging
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any, Literal

_job: contextvars.ContextVar[str] = contextvars.ContextVar("job", default="")


@contextlib.contextmanager
def job(key: tuple[str, str]) -> Generator[None]:
    """Records made inside are about this job, (namespace, name)."""
    token = _job.set("/".join(key))
    try:
        yield
    finally:
        _job.reset(token)


class _AddJob(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.job = _job.get()
        return True


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        about = getattr(record, "job", "")
        head = f"{_time(record)} {record.levelname:<7} {record.name}"
        return f"{head} [{about}] {text}" if about else f"{head} {text}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        out: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if about := getattr(record, "job", ""):
            out["job"] = about
        if record.exc_info:
            out["exception"] = self.formatException(record.exc_info)
        return json.dumps(out, ensure_ascii=False)


def configure(form: Literal["text", "json"], level: str) -> None:
    """Set up the root logger; kopf and aiohttp only tell what went wrong."""
    handler = logging.StreamHandler()
    handler.addFilter(_AddJob())
    handler.setFormatter(_Json() if form == "json" else _Text("%(message)s"))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for noisy in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
