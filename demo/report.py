"""What each fault cost, from two independent clocks: the steps that rank 0 logged and the status
that the operator wrote."""

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from demo.faults import Injected
from demo.watch import Change, Step


@dataclass(frozen=True, slots=True)
class FaultResult:
    """One fault: seconds from its injection."""

    kind: str
    fault_class: str
    rung: str
    target: str
    # Until the status named it.
    detected_s: float | None
    # Until the first step beyond the highest before the fault.
    recovered_s: float | None
    # Steps done again.
    lost_steps: int | None

    def as_json(self) -> dict[str, Any]:
        """The report's entry: `class` as the API names it."""
        fields = asdict(self)
        return {"class" if key == "fault_class" else key: value for key, value in fields.items()}


def _entries(status: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """History entries and the recovery under way, by number."""
    entries = [*status.get("history", []), status.get("recovery")]
    return {entry["number"]: entry for entry in entries if entry}


def judge(fault: Injected, until: float, steps: list[Step], changes: list[Change]) -> FaultResult:
    """Judge one fault that had the time until `until` for itself."""
    before = {n for c in changes if c.unix <= fault.unix for n in _entries(c.status)}
    seen: dict[int, dict[str, Any]] = {}
    detected: float | None = None
    for change in (c for c in changes if fault.unix < c.unix <= until):
        new = {n: entry for n, entry in _entries(change.status).items() if n not in before}
        if new and detected is None:
            detected = change.unix - fault.unix
        seen.update(new)
    last = seen[max(seen)] if seen else {}
    recovery, lost = _recovery(fault, until, steps)
    return FaultResult(
        kind=fault.kind,
        fault_class=last.get("class", ""),
        rung=last.get("rung", ""),
        target=fault.target,
        detected_s=detected,
        recovered_s=recovery.unix - fault.unix if recovery else None,
        lost_steps=lost,
    )


def _recovery(fault: Injected, until: float, steps: list[Step]) -> tuple[Step | None, int | None]:
    """The first new step of a later life of the training, and how many steps were done again.

    A step logged between the injection and its effect belongs to the old life and counts for
    nothing.
    """
    old_lives = {s.life for s in steps if s.unix <= fault.unix}
    highest = max((s.step for s in steps if s.life in old_lives), default=-1)
    reborn = [s for s in steps if fault.unix < s.unix <= until and s.life not in old_lives]
    if not reborn:
        return None, None
    recovery = next((s for s in reborn if s.step > highest), None)
    return recovery, max(0, highest - reborn[0].step + 1)


def build(
    created: float,
    steps: list[Step],
    faults: list[FaultResult],
    status: dict[str, Any],
    kubernetes: str,
) -> dict[str, Any]:
    """report.json: seconds as floats, from the job's creation or the injected fault."""
    packages = ("kopf", "torch", "nvidia-resiliency-ext", "resilient-training-operator")
    return {
        "first_step_s": min((s.unix for s in steps), default=created) - created,
        "faults": [fault.as_json() for fault in faults],
        "phase": status.get("phase"),
        "restarts": status.get("restarts", {}),
        "versions": {"kubernetes": kubernetes, **{name: version(name) for name in packages}},
    }


def write(path: Path, report: dict[str, Any]) -> None:
    """Write it for people and programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
