"""What happens to a job, second by second: its status as it changes, and the steps its ranks log.

Steps come from the log of rank 0, wherever it runs, with the container runtime's own time; status
changes are timed when the watch delivers them.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demo.kube import Kube
from rtj_api import names

STEP_LINE = re.compile(r"^(\S+) .*?\bstep=(\d+) .*?\b(run=\d+ round=\d+ iteration=\d+)")
FRACTION = re.compile(r"\.(\d{1,6})\d*")


@dataclass(frozen=True, slots=True)
class Step:
    """One completed training step."""

    unix: float
    step: int
    pod: str
    # Run, round and in-process iteration: a recovery of any rung begins a new life.
    life: str


@dataclass(frozen=True, slots=True)
class Change:
    """The job's status from this moment on."""

    unix: float
    status: dict[str, Any]


def unix_time(text: str) -> float:
    """Unix seconds of an RFC 3339 time with nanoseconds, as the container runtime writes it."""
    return datetime.fromisoformat(FRACTION.sub(lambda m: "." + m[1], text)).timestamp()


def parse_step(line: str, pod: str) -> Step | None:
    """The step that a log line tells of, if it does."""
    match = STEP_LINE.match(line)
    return Step(unix_time(match[1]), int(match[2]), pod, match[3]) if match else None


@dataclass
class JobWatch:
    """Follows one job in background threads until stopped."""

    kube: Kube
    job: str
    steps: set[Step] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _followed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin; may be called before the job exists."""
        self._spawn(self._follow_status)
        self._spawn(self._follow_pods)

    def stop(self) -> None:
        """End; threads that hang in a dead node's log end with the process."""
        self._stop.set()

    @property
    def status(self) -> dict[str, Any]:
        """The newest status, {} before the first."""
        return self.changes[-1].status if self.changes else {}

    @property
    def highest_step(self) -> int:
        """Highest step seen so far, -1 before the first."""
        with self._lock:
            return max((step.step for step in self.steps), default=-1)

    def sorted_steps(self) -> list[Step]:
        """All steps in order of time."""
        with self._lock:
            return sorted(self.steps, key=lambda step: step.unix)

    def wait(self, what: str, until: Callable[["JobWatch"], bool], seconds: float) -> None:
        """Poll a condition of this watch; TimeoutError names what was waited for."""
        deadline = time.monotonic() + seconds
        while not until(self):
            phase = self.status.get("phase")
            if phase == "Failed" and "fail" not in what:
                raise RuntimeError(f"job {self.job} failed: {self.status.get('message', '')}")
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"job {self.job}: no {what} within {seconds:.0f} s; phase {phase}, "
                    f"step {self.highest_step}: kubectl describe rtj {self.job}"
                )
            self._stop.wait(0.05)

    def wait_step(self, step: int, seconds: float) -> None:
        """Until this step was logged."""
        self.wait(f"step {step}", lambda watch: watch.highest_step >= step, seconds)

    def _spawn(self, target: Callable[..., None], *args: str) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow_status(self) -> None:
        while not self._stop.is_set():
            try:
                for job in self.kube.watch_job(self.job):
                    self.changes.append(Change(time.time(), job.get("status", {})))
                    if self._stop.is_set():
                        return
            except Exception:  # the API server restarts or is not there yet: watch again
                self._stop.wait(0.2)

    def _follow_pods(self) -> None:
        while not self._stop.wait(0.3):
            try:
                pods = self.kube.pods(self.job)
            except Exception:
                continue
            for pod in pods:
                labels = pod.metadata.labels
                started = pod.status.phase in ("Running", "Succeeded", "Failed")
                worker = labels.get(names.LABEL_ROLE) == names.ROLE_WORKER
                if worker and started and pod.metadata.uid not in self._followed:
                    self._followed.add(pod.metadata.uid)
                    self._spawn(self._follow_log, pod.metadata.name, pod.metadata.uid)

    def _follow_log(self, pod: str, uid: str) -> None:
        try:
            for line in self.kube.log_lines(pod, names.CONTAINER_TRAINER):
                step = parse_step(line, pod)
                if step:
                    with self._lock:
                        self.steps.add(step)
        except Exception:
            # Lost with its node, or asked for too early: steps are a set, so reading again is safe.
            self._stop.wait(0.5)
            self._followed.discard(uid)
