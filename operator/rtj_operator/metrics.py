"""Prometheus metrics of the operator, all in one place so that names and labels stay few.

Labels are bounded: verbs, kinds, rungs, classes; per-job series end with their job.
"""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rtj_operator.kube.objects import Job
from rtj_operator.policy.decision import Decision
from rtj_operator.policy.observation import JobObservation

_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)

RECOVERIES: Final = Counter(
    "rtj_recoveries", "Recoveries that ended, by rung and fault class", ["rung", "class"]
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
VIEW_BAD_FRAMES: Final = Counter(
    "rtj_view_bad_frames", "Frames of coordinators that were not understood, and ignored"
)
REQUESTS: Final = Counter(
    "rtj_api_requests",
    "Requests to the API server; code 0: no answer",
    ["verb", "resource", "code"],
)
WATCH_REFUSED: Final = Gauge(
    "rtj_watch_refused",
    "1 while the API server refuses to list what is watched; an empty namespace: all",
    ["resource", "namespace"],
)
KOPF_ENDED: Final = Counter(
    "rtj_kopf_ended", "Watches of jobs by kopf that ended and were begun again"
)
LOOP_DELAY: Final = Histogram(
    "rtj_loop_delay_seconds",
    "By how much the event loop was late, ten times a second",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
LOOP_LAG: Final = Gauge("rtj_loop_lag_seconds", "Worst delay of the event loop in the last minute")


def count_request(verb: str, resource: str, code: int) -> None:
    """Count one request; `code` 0 when no answer came."""
    REQUESTS.labels(verb, resource, str(code)).inc()


def count_decision(job: JobObservation, decision: Decision) -> None:
    """Count what a decision began and ended; call it once its status is written."""
    for rung, fault_class in decision.counted:
        RECOVERIES.labels(rung, fault_class).inc()
    last = max((entry.number for entry in job.status.history), default=0)
    for entry in decision.status.history:
        if entry.number <= last:
            continue
        if entry.detected_seconds is not None:
            DETECTION.labels(entry.fault_class).observe(entry.detected_seconds)
        if entry.recovered_seconds is not None:
            RECOVERY.labels(entry.rung).observe(entry.recovered_seconds)


class JobCollector(Collector):
    """Figures of jobs and nodes as they are when Prometheus asks, so that none outlives its job."""

    def __init__(
        self,
        jobs: Callable[[], Iterable[Job]],
        refused_hellos: Callable[[], Mapping[tuple[str, str], int]],
        nodes_not_ready: Callable[[], int],
    ) -> None:
        self._jobs = jobs
        self._nodes_not_ready = nodes_not_ready
        self._refused_hellos = refused_hellos

    def collect(self) -> Iterable[Metric]:
        """Phases, steps, goodput, strangers."""
        labels = ["namespace", "job"]
        phases: Counts[str] = Counts()
        step = GaugeMetricFamily("rtj_job_step", "Highest training step", labels=labels)
        goodput = GaugeMetricFamily(
            "rtj_job_goodput_ratio",
            "Share of the time since the first step in which new steps were made",
            labels=labels,
        )
        for job in self._jobs():
            where, status = [job.metadata.namespace, job.metadata.name], job.status
            phases[str(status.get("phase", "Pending"))] += 1
            step.add_metric(where, float(status.get("progress", {}).get("highestStep", -1)))
            seconds = status.get("goodput", {})
            if elapsed := float(seconds.get("elapsedSeconds", 0)):
                goodput.add_metric(where, float(seconds.get("productiveSeconds", 0)) / elapsed)
        phase = GaugeMetricFamily("rtj_jobs", "Jobs by phase", labels=["phase"])
        for name, count in phases.items():
            phase.add_metric([name], count)
        refused = GaugeMetricFamily(
            "rtj_job_refused_hellos",
            "Clients that the job's coordinator turned away since it started",
            labels=labels,
        )
        for key, refusals in self._refused_hellos().items():
            refused.add_metric(key, refusals)
        not_ready = GaugeMetricFamily(
            "rtj_nodes_not_ready",
            "Nodes of the cluster that are not ready, as this process sees it",
        )
        not_ready.add_metric([], self._nodes_not_ready())
        return phase, step, goodput, refused, not_ready
