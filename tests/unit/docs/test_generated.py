"""What pages take from code and measurements is current, and whole."""

import json
from enum import StrEnum
from pathlib import Path

import pytest

from docs.generate import comments, figures, markdown
from docs.generate.__main__ import outdated
from rtj_api.ladder import FaultClass, Rung
from rtj_api.reasons import EventReason, Reason
from tests.unit.docs.pages import ROOT, page


class Bare(StrEnum):
    TOLD = "Told"  # it is said
    UNTOLD = "Untold"


def results(folder: Path) -> Path:
    """A file as the benchmark writes it, each median twice the figure's place in the list."""
    bars = json.loads((ROOT / "bench" / "bars.json").read_text())
    measured = {
        name: {**bar, "median": 2.0 * place, "worst": 2.5 * place, "values": [1.0] * 3, "met": True}
        for place, (name, bar) in enumerate(bars.items(), start=1)
    }
    written = folder / "main-job.json"
    result = {"command": "make bench", "date": "2026-01-02", "commit": "abc", "machine": "2 cores"}
    written.write_text(json.dumps(result | {"figures": measured}))
    return written


def test_generated_pages_are_current() -> None:
    assert [path.name for path in outdated()] == [], "run `make generate`"


def test_ladder_without_measurements_claims_none(tmp_path: Path) -> None:
    block = figures.block(tmp_path / "none.json")
    assert "measured" not in block
    assert block.count("\n") == len(Rung) + 1


def test_ladder_shows_every_figure_of_the_benchmark(tmp_path: Path) -> None:
    block = figures.block(results(tmp_path))
    bars = json.loads((ROOT / "bench" / "bars.json").read_text())
    missing = [
        name for place, name in enumerate(bars, start=1) if f"{2.0 * place:.1f} " not in block
    ]
    assert missing == []
    row = next(line for line in block.splitlines() if "InProcess" in line)
    assert row.endswith("| 4.0 s (5.0) |")
    assert "`make bench` on 2 cores, commit abc, 2026-01-02" in block


def test_reference_has_every_word() -> None:
    text = page("docs/reference.md").text
    words = [str(word) for kind in (Rung, FaultClass, Reason, EventReason) for word in kind]
    assert [word for word in words if f"| `{word}` |" not in text] == []


def test_a_member_without_a_comment_is_refused_by_name() -> None:
    with pytest.raises(comments.Undocumented, match=r"Bare\.Untold"):
        comments.words(Bare)


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(markdown.MissingBlock, match="ladder"):
        markdown.with_block("# Page\n", "ladder", "text")


def test_a_block_is_replaced_and_the_rest_kept() -> None:
    page = "a\n<!-- x: made by `make generate` -->\nold\n<!-- end of x -->\nb\n"
    assert markdown.with_block(page, "x", "new") == page.replace("old", "new")


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown.table(("a",), [("x | y",)]).splitlines()[-1] == r"| x \| y |"
