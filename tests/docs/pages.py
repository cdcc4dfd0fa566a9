"""The pages that people read, and their parts: fenced blocks, prose, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
AT_THE_TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")

_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```[ ]*$", re.M | re.S)
_CODE_SPAN = re.compile(r"(`+).+?\1", re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its first line inside the page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def pages() -> list[Path]:
    """All that are there now."""
    top = [ROOT / name for name in AT_THE_TOP if (ROOT / name).is_file()]
    return top + sorted(DOCS.rglob("*.md"))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    found = [
        Block(page, text.count("\n", 0, match.start(2)) + 1, match[1], match[2]) for match in _FENCE.finditer(text)
    ]
    return [block for block in found if not languages or block.language in languages]


def without_fences(page: Path) -> str:
    """Its text with empty lines for fenced blocks, so that line numbers stay."""
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text())


def prose(page: Path) -> str:
    """What is said in words: no fenced block, no code span, no link's target."""
    text = _CODE_SPAN.sub(lambda match: "`" + "\n" * match[0].count("\n"), without_fences(page))
    return re.sub(r"\]\([^)\s]+\)", "]", text)


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Line and target of each link that leads to something of this repository."""
    text = _CODE_SPAN.sub("`", without_fences(page))
    for match in _LINK.finditer(text):
        if not re.match(r"[a-z]+:", match[1]):
            yield text.count("\n", 0, match.start()) + 1, match[1]


def anchors(page: Path) -> set[str]:
    """The names that a link may end with, made as code hosts make them from headings."""
    made: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(without_fences(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen = made.setdefault(slug, 0)
        made[slug] += 1
        found.add(f"{slug}-{seen}" if seen else slug)
    return found
