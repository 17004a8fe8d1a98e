"""The main job, of demo and benchmark: apply it, break it three ways, see it finish."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.faults import Injected
from demo.kube import Kube
from demo.report import FaultResult, judge
from demo.watch import JobWatch

# New steps to see before the next fault, so that each finds a job in training.
STEPS_BETWEEN_FAULTS = 16
FIRST_STEP_SECONDS = 120.0
RECOVERY_SECONDS = 120.0
FINISH_SECONDS = 300.0
Tell = Callable[[str, str], None]
Inject = Callable[[], Injected]


@dataclass(frozen=True, slots=True)
class MainJobResult:
    """What happened, ready for report and plot."""

    created: float
    faults: list[tuple[Injected, FaultResult]]


def apply(kube: Kube, manifest: str) -> float:
    """kubectl apply; returns the moment before it (Unix seconds)."""
    now = time.time()
    kube.kubectl("apply", "-f", "-", stdin=manifest)
    return now


def run(
    kube: Kube, watch: JobWatch, manifest: str, injections: Sequence[Inject], tell: Tell
) -> MainJobResult:
    """Run a job through its faults to its end; raises TimeoutError naming what did not come."""
    watch.start()
    created = apply(kube, manifest)
    tell(f"kubectl apply: {watch.job}", "bold")
    watch.wait_step(1, FIRST_STEP_SECONDS)
    first = watch.sorted_steps()[0]
    tell(f"first training step after {first.unix - created:.1f} s", "green")
    injected: list[Injected] = []
    for inject in injections:
        fault = recover_from(watch, _told(inject, tell), STEPS_BETWEEN_FAULTS, RECOVERY_SECONDS)
        injected.append(fault)
        result = judge(fault, time.time(), watch.sorted_steps(), list(watch.changes))
        tell(f"training again after {result.recovered_s:.1f} s", "green")
    complete(watch, FINISH_SECONDS)
    tell("training finished", "bold green")
    return MainJobResult(created, _judge_all(injected, watch))


def complete(watch: JobWatch, seconds: float) -> None:
    """Until the job is Complete and its last step, which comes by another stream, has been read."""
    watch.wait("completion", lambda w: w.status.get("phase") == "Complete", seconds)
    watch.wait_step(watch.status["progress"]["highestStep"], seconds)


def recover_from[T](
    watch: JobWatch, inject: Callable[[], T], settle_steps: int, seconds: float
) -> T:
    """Let the job make some steps, break it, and wait until it is beyond where it was; returns what
    `inject` does. TimeoutError when either takes longer than `seconds`."""
    watch.wait_step(watch.highest_step + settle_steps, seconds)
    lives = {step.life for step in watch.sorted_steps()}
    fault = inject()
    watch.wait("recovery", lambda w: recovered(w, lives), seconds)
    return fault


def _told(inject: Inject, tell: Tell) -> Inject:
    def inject_and_tell() -> Injected:
        fault = inject()
        tell(f"fault: {fault.kind}, {fault.target}", "bold red")
        return fault

    return inject_and_tell


def recovered(watch: JobWatch, lives: set[str]) -> bool:
    """A step of a later life lies beyond all steps of the lives before the fault."""
    steps = watch.sorted_steps()
    highest = max((s.step for s in steps if s.life in lives), default=-1)
    return any(s.life not in lives and s.step > highest for s in steps)


def _judge_all(injected: list[Injected], watch: JobWatch) -> list[tuple[Injected, FaultResult]]:
    """Each fault until the next one, with all that is known at the end."""
    ends = [fault.unix for fault in injected[1:]] + [time.time()]
    steps, changes = watch.sorted_steps(), list(watch.changes)
    return [
        (fault, judge(fault, end, steps, changes))
        for fault, end in zip(injected, ends, strict=True)
    ]
