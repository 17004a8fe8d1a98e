"""Entry point of `python -m docs.generate`."""

import argparse
import sys
from pathlib import Path
from typing import Final

from docs.generate import figures, reference, transitions
from docs.generate.markdown import with_block

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
CONCEPTS: Final = ROOT / "docs" / "concepts.md"
REFERENCE: Final = ROOT / "docs" / "reference.md"
RESULTS: Final = ROOT / "bench" / "results" / "main-job.json"
LADDER: Final = "ladder"
TRANSITIONS: Final = "transitions"


def pages() -> dict[Path, str]:
    """Each page that has generated parts, as it should be."""
    readme = README.read_text(encoding="utf-8")
    return {
        REFERENCE: reference.text(),
        CONCEPTS: with_block(
            CONCEPTS.read_text(encoding="utf-8"), TRANSITIONS, transitions.diagram()
        ),
        README: with_block(readme, LADDER, figures.block(RESULTS)),
    }


def outdated() -> list[Path]:
    """Pages that are not as they should be."""
    wanted = pages()
    return [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate")
    parser.add_argument("--write", action="store_true", help="rewrite the pages")
    if parser.parse_args().write:
        for path, text in pages().items():
            path.write_text(text, encoding="utf-8")
        return 0
    old = outdated()
    for path in old:
        sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: run `make generate`\n")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
