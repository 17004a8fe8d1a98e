"""Tables, and blocks between markers within a page that is otherwise written by hand."""

import re
from collections.abc import Iterable, Sequence


class MissingBlock(ValueError):
    """A page has no such pair of markers."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; `|` in cells is escaped, as a row would end there."""
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", r"\|")


def with_block(page: str, name: str, text: str) -> str:
    """The page with the text between its markers of that name; raises MissingBlock."""
    begin, end = f"<!-- {name}: made by `make generate` -->", f"<!-- end of {name} -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise MissingBlock(f"the page has no lines {begin!r} and {end!r}; add both")
    return f"{head}{begin}\n{text}\n{end}{tail}"
