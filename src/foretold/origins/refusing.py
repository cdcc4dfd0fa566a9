"""Saying no to one member of a body: which it is, what was found, what is wanted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from foretold.errors import Refused

_LONGEST_SHOWN = 40


def unknown_field(name: str, *, known: Iterable[str]) -> Refused:
    """`name` is the member's place, such as `messages[0].audio`."""
    return Refused(
        f"a local model has no `{name[:100]}`: known are {', '.join(sorted(known))}",
        param=name[:100],
        code="unknown_field",
    )


def bad_value(name: str, found: Any, wanted: str) -> Refused:
    return Refused(f"`{name}` is {_shown(found)}: wanted is {wanted}", param=name, code="bad_value")


def count(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within its range; 1.0 is one."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if not isinstance(whole, int) or isinstance(whole, bool) or not least <= whole <= most:
        raise bad_value(name, value, f"a whole number from {least} to {most}")
    return whole


def number(name: str, value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise bad_value(name, value, f"a number from {least:g} to {most:g}")
    return value


def depth(value: Any, *, most: int) -> int:
    """How deep lists and objects are nested, looking no deeper than `most` + 1."""
    if not isinstance(value, (dict, list)) or most < 0:
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((depth(item, most=most - 1) for item in inner), default=0)


def _shown(value: Any) -> str:
    """Numbers and flags as they are, all else by its kind: a text may be private."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)) and math.isfinite(value):
        return str(value)[:_LONGEST_SHOWN]
    match value:
        case str():
            return f"a text of length {len(value)}"
        case list():
            return f"a list of length {len(value)}"
        case dict():
            return f"an object of {len(value)} members"
    return "null"
