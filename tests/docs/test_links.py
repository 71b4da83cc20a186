"""Links of every page lead somewhere, and every page is reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, all_pages, anchors, blocks, headings, links

PAGES = all_pages()


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def local(page: Path) -> list[tuple[Path, str]]:
    """Files and fragments that a page links to."""
    found = []
    for link in links(page):
        if not re.match(r"[a-z]+:", link):
            path, _, fragment = link.partition("#")
            found.append(((page.parent / path).resolve() if path else page, fragment))
    return found


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path) -> None:
    for target, fragment in local(page):
        assert target.exists(), f"{names(page)} links to {target}"
        if fragment:
            assert fragment in anchors(target), f"{names(page)} links to #{fragment} in {target.name}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_elsewhere_are_few_and_whole(page: Path) -> None:
    for link in links(page):
        assert not re.match(r"[a-z]+:", link) or link.startswith("https://"), link


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_a_page_has_one_title(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("# ")
    assert headings(page)
    assert text.count("\n```") % 2 == 0, "a fence is not closed"
    assert len(blocks(page)) == text.count("\n```") // 2


def test_every_page_is_reached_from_the_readme() -> None:
    reached, open_pages = set(), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        open_pages += [target for target, _ in local(page)]
    assert {names(page) for page in DOCS.rglob("*.md")} <= {names(page) for page in reached}
