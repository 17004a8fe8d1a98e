"""The project's pages and what is in them, for the tests that hold them to the code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
# Folders that are made, not written.
_MADE: Final = frozenset({"out", "node_modules"})
_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Path from the checkout."""
        return str(self.path.relative_to(ROOT))

    def blocks(self, language: str) -> list[str]:
        """Fenced blocks of a language."""
        return [body for found, body in _FENCE.findall(self.text) if found == language]

    @property
    def shell(self) -> str:
        """All shell commands, one a line, continued lines joined; indented blocks included."""
        indented = "\n".join(
            line.strip() for line in self.prose.splitlines() if line.startswith("    ")
        )
        return "\n".join([*self.blocks("sh"), indented]).replace("\\\n", " ")

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def words(self) -> list[str]:
        """What stands in backticks, in prose."""
        return _CODE.findall(self.prose)


def pages() -> Iterator[Page]:
    """Every page of the checkout."""
    for path in sorted(ROOT.rglob("*.md")):
        parts = path.relative_to(ROOT).parts
        if not any(part.startswith(".") or part in _MADE for part in parts):
            yield Page(path, path.read_text(encoding="utf-8"))


def page(name: str) -> Page:
    """One page by its path from the checkout."""
    path = ROOT / name
    return Page(path, path.read_text(encoding="utf-8"))


PAGES: Final = tuple(pages())
IDS: Final = [found.name for found in PAGES]
