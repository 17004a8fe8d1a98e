"""Figures against their bars; a figure that its row did not bring is a missed bar."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
RESULT: Final = HERE.parent / "results" / "fleet.json"


@dataclass(slots=True)
class Figures:
    """Values by name; the median counts."""

    values: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, name: str, value: float) -> None:
        """Keep a value and tell it on standard error."""
        self.values.setdefault(name, []).append(round(value, 4))
        tell(f"  {name}: {value:.3f}")

    def judged(self, rows: Iterable[str]) -> list[dict[str, Any]]:
        """A line for each figure of these rows."""
        bars: dict[str, dict[str, Any]] = json.loads((HERE / "bars.json").read_text())
        wanted = set(rows)
        lines: list[dict[str, Any]] = []
        for name, bar in bars.items():
            if bar["row"] not in wanted:
                continue
            values = self.values.get(name, [])
            value = statistics.median(values) if values else None
            within = value is not None and (bar["at_most"] is None or value <= bar["at_most"])
            line = {"name": name, "value": value, "unit": bar["unit"], "bar": bar["at_most"]}
            lines.append({**line, "ok": within, "what": bar["what"], "values": values})
        return lines


def tell(text: str) -> None:
    """Say to a person what happens; standard output is for figures."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def write(lines: list[dict[str, Any]], command: str, result: Path) -> None:
    """Keep the figures with what they were measured on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    kept = {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit,
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}",
        "figures": lines,
    }
    result.write_text(json.dumps(kept, indent=2) + "\n")
