"""timeline.png: step over time, with faults and recoveries marked."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from demo.faults import Injected
from demo.report import FaultResult
from demo.watch import Step

FAULT = "#c62828"
RECOVERY = "#2e7d32"
LINE = "#1a237e"
# A jump back or a silence longer than this is drawn as a gap, not as training.
GAP_SECONDS = 3.0


def _segments(steps: list[Step], start: float) -> list[tuple[list[float], list[int]]]:
    """Runs of steps without an interruption, seconds since `start` and step numbers."""
    segments: list[tuple[list[float], list[int]]] = []
    previous: Step | None = None
    for step in steps:
        broken = previous is not None and (
            step.step <= previous.step or step.unix - previous.unix > GAP_SECONDS
        )
        if previous is None or broken:
            segments.append(([], []))
        segments[-1][0].append(step.unix - start)
        segments[-1][1].append(step.step)
        previous = step
    return segments


def _mark(axes: Axes, fault: Injected, result: FaultResult, start: float, top: int) -> None:
    at = fault.unix - start
    axes.axvline(at, color=FAULT, linewidth=1.2)
    label = f"{fault.kind}\n{fault.target}"
    if result.recovered_s is not None:
        axes.axvspan(at, at + result.recovered_s, color=FAULT, alpha=0.12, linewidth=0)
        axes.axvline(at + result.recovered_s, color=RECOVERY, linewidth=1.2, linestyle="--")
        label += f"\n{result.rung}: {result.recovered_s:.1f} s"
    axes.text(
        at - 0.8, top * 0.98, label, color=FAULT, fontsize=8, rotation=90, va="top", ha="right"
    )


def timeline(
    path: Path,
    created: float,
    steps: list[Step],
    faults: list[tuple[Injected, FaultResult]],
    title: str,
) -> None:
    """Draw the job from its creation to its last step."""
    figure, axes = plt.subplots(figsize=(11, 5), dpi=120)
    for seconds, numbers in _segments(steps, created):
        axes.plot(seconds, numbers, color=LINE, linewidth=2)
    top = max((step.step for step in steps), default=1)
    for fault, result in faults:
        _mark(axes, fault, result, created, top)
    axes.plot([], [], color=LINE, linewidth=2, label="training steps (rank 0)")
    axes.plot([], [], color=FAULT, label="fault")
    axes.plot([], [], color=RECOVERY, linestyle="--", label="first new step")
    axes.set_xlabel("seconds since kubectl apply")
    axes.set_ylabel("step")
    axes.set_xlim(left=0)
    axes.set_ylim(0, top * 1.05)
    axes.set_title(title, loc="left")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
