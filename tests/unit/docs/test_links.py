"""No link leads nowhere."""

import re
from typing import Final

import pytest

from tests.unit.docs.pages import IDS, PAGES, Page

LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Of a page's headings, as a repository's web view makes them."""
    plain = (re.sub(r"[^\w\- ]", "", heading).strip() for heading in HEADING.findall(text))
    return {heading.lower().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_leads_to_a_file_or_heading(page: Page) -> None:
    broken: list[str] = []
    for target in LINK.findall(page.prose):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = page.path.parent / file if file else page.path
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            broken.append(target)
    assert broken == []


def test_every_page_of_docs_is_reached_from_the_readme() -> None:
    readme = next(page for page in PAGES if page.name == "README.md")
    linked = set(LINK.findall(readme.text))
    assert {page.name for page in PAGES if page.name.startswith("docs/")} <= linked
