"""The pages of the docs: their files, headings, links and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands after the fence's opening, and its text."""

    kind: str
    text: str


def all_pages() -> list[Path]:
    """Every page that a reader may come to, the README among them."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted(DOCS.rglob("*.md")),
        *sorted(ROOT.glob("examples/*/*.md")),
    ]


def blocks(page: Path, kind: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order; those of one kind where it is given."""
    found = [Block(match["kind"].strip(), match["text"]) for match in _FENCE.finditer(page.read_text())]
    return [block for block in found if kind is None or block.kind == kind]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def headings(page: Path) -> list[str]:
    """Headings without their marks."""
    return re.findall(r"^#+ +(.+?) *$", prose(page), re.M)


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    found: set[str] = set()
    for heading in headings(page):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = sum(slug == one or re.fullmatch(f"{re.escape(slug)}-\\d+", one) is not None for one in found)
        found.add(f"{slug}-{count}" if count else slug)
    return found


def links(page: Path) -> Iterator[str]:
    """Targets of links and images."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


def part(page: Path, name: str) -> str:
    """What a page holds between ``<!-- name -->`` and ``<!-- end of name -->``."""
    match = re.search(_marks(name), page.read_text(), re.S)
    assert match, f"{page} has no part {name}"
    return match["text"]


def set_part(page: Path, name: str, text: str) -> None:
    """Replace that part."""
    whole = page.read_text()
    match = re.search(_marks(name), whole, re.S)
    assert match, f"{page} has no part {name}"
    page.write_text(whole[: match.start("text")] + text + whole[match.end("text") :])


def _marks(name: str) -> str:
    return rf"<!-- {re.escape(name)} -->\n(?P<text>.*?)<!-- end of {re.escape(name)} -->"
