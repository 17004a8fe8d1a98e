"""The ladder in README.md, with what `make bench` measured; without results, without seconds."""

import json
from pathlib import Path
from typing import Any, Final

from docs.generate.comments import words
from docs.generate.markdown import table
from rtj_api.ladder import Rung

# Rung -> who acts, and the figure of bench/bars.json that tells how long it takes.
_WHO: Final[dict[Rung, tuple[str, str]]] = {
    Rung.IN_PROCESS: ("NVRx in the ranks", "exception_s"),
    Rung.IN_JOB: ("`ft_launcher`, or the coordinator", "process_killed_s"),
    Rung.POD: ("operator", ""),
    Rung.NODE: ("coordinator (spare), operator (node, new worker)", "node_killed_s"),
    Rung.GANG: ("operator, through the coordinator", "control_killed_s"),
    Rung.FAILED: ("operator", ""),
}
_UNITS: Final = {"_s": "s", "_mb": "MB", "_per_minute": "a minute"}


def block(results: Path) -> str:
    """The block; `results` is what the benchmark wrote, and may not exist."""
    if not results.exists():
        return _ladder({})
    result: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    figures: dict[str, dict[str, Any]] = result["figures"]
    shown = {figure for _, figure in _WHO.values()}
    others = [(name, figure) for name, figure in figures.items() if name not in shown]
    lines = [f"- {figure['what']}: {_value(name, figure)}" for name, figure in others]
    where = f"`{result['command']}` on {result['machine']}, commit {result['commit']}"
    told = (
        "Seconds from the injected fault to the first step beyond all earlier ones, median "
        f"(worst) of {_count(figures)}; small model, CPU, gloo. {where}, {result['date']}."
    )
    return "\n\n".join((_ladder(figures), told, "\n".join(lines)))


def _ladder(figures: dict[str, dict[str, Any]]) -> str:
    head = ["rung", "what happens", "who"] + (["measured"] if figures else [])
    rows: list[list[str]] = []
    for height, word in enumerate(words(Rung), start=1):
        who, name = _WHO[Rung(word.value)]
        row = [f"{height} {word.value}", word.meaning, who]
        if figures:
            row.append(_value(name, figures[name]) if name else "")
        rows.append(row)
    return table(head, rows)


def _value(name: str, figure: dict[str, Any]) -> str:
    unit = next(text for ending, text in _UNITS.items() if name.endswith(ending))
    middle, worst = figure["median"], figure["worst"]
    if len(figure["values"]) == 1:
        return f"{middle:.1f} {unit}"
    return f"{middle:.1f} {unit} ({worst:.1f})"


def _count(figures: dict[str, dict[str, Any]]) -> int:
    return max(len(figure["values"]) for figure in figures.values())
