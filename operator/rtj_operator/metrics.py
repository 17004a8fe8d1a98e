"""Prometheus metrics of the operator, all in one place so that names and labels stay few.

Labels are bounded: verbs, kinds, rungs, classes; per-job series end with their job.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)

RECOVERIES: Final = Counter(
    "rtj_recoveries", "Recoveries begun, by rung and fault class", ["rung", "class"]
)
DETECTION: Final = Histogram(
    "rtj_detection_seconds",
    "From the suspect's last sign of life to the detection",
    ["class"],
    buckets=_SECONDS,
)
RECOVERY: Final = Histogram(
    "rtj_recovery_seconds",
    "From the detection to the first new training step",
    ["rung"],
    buckets=_SECONDS,
)
JOB_STEP: Final = Gauge("rtj_job_step", "Highest training step", ["namespace", "job"])
JOB_GOODPUT: Final = Gauge(
    "rtj_job_goodput_ratio",
    "Share of the time since the first step in which new steps were made",
    ["namespace", "job"],
)
JOBS: Final = Gauge("rtj_jobs", "Jobs by phase", ["phase"])
RECONCILE: Final = Histogram(
    "rtj_reconcile_seconds",
    "One pass over one job",
    ["result"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
)
QUEUE_DEPTH: Final = Gauge("rtj_queue_depth", "Jobs that wait for a pass")
LEADER: Final = Gauge("rtj_leader", "1 while this process holds the lease")
REFUSED: Final = Counter(
    "rtj_refused", "Children that the API server refused, by kind and code", ["kind", "code"]
)
VIEW_REFUSED: Final = Counter(
    "rtj_view_refused", "View sockets that the other side or we turned down", ["reason"]
)
REQUESTS: Final = Counter(
    "rtj_api_requests",
    "Requests to the API server; code 0: no answer",
    ["verb", "resource", "code"],
)
LOOP_LAG: Final = Gauge("rtj_loop_lag_seconds", "Worst delay of the event loop in the last minute")


def count_request(verb: str, resource: str, code: int) -> None:
    """Count one request; `code` 0 when no answer came."""
    REQUESTS.labels(verb, resource, str(code)).inc()
