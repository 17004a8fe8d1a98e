"""Rewrites golden files: expected output that is kept in the tree and compared byte for byte."""

import argparse
from collections.abc import Mapping
from pathlib import Path


def rewrite(doc: str | None, texts: Mapping[Path, str]) -> None:
    """Command line of a module of golden files: `--write` replaces all of them."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
