"""Header fields, as all of Foretold has them: one code point of a value is one byte, for values are bytes (Latin-1)."""

from __future__ import annotations

from collections.abc import Iterable


def by_name(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The value of each name, its lines joined by ", " in their order (RFC 9110 section 5.3).

    Whoever reads one line of several reads half: the `no-store` may stand in the other.
    """
    values: dict[str, str] = {}
    for name, value in fields:
        values[name] = f"{values[name]}, {value}" if name in values else value
    return values


def from_wire(name: bytes, value: bytes) -> tuple[str, str]:
    """A field with its name in lower case."""
    return name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")


def as_utf8(value: str) -> str:
    """What must be given to a library that writes UTF-8 so that it writes the bytes of a value.

    Bytes that aren't UTF-8 can't be written by it: they go out as the UTF-8 of their Latin-1.
    """
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value
