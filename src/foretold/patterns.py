"""Patterns of names: `*` stands for any text, `?` for one character, all else for itself."""

from __future__ import annotations

import re
from functools import lru_cache


def is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def matches(text: str, pattern: str) -> bool:
    return pattern == "*" or _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Each part between two stars is taken where it first fits, and never looked for again: no text takes long."""
    first, *parts = (_literal(part) for part in pattern.split("*"))
    if not parts:
        return re.compile(first, re.DOTALL)
    *middle, last = parts
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}", re.DOTALL)


def _literal(part: str) -> str:
    return "".join("." if c == "?" else re.escape(c) for c in part)
