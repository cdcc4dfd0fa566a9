"""How a setting is described: by how it is read, its default, and one sentence."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from foretold.config import values as v

NO_DEFAULT: Any = object()


def setting(read: v.Reader, default: Any, says: str, *, shown: str) -> Any:
    """`shown` is a value as TOML for the documented example: the default, where there is one."""
    metadata = {"read": read, "says": says, "shown": shown}
    return field(metadata=metadata) if default is NO_DEFAULT else field(default=default, metadata=metadata)


def table(kind: type, says: str) -> Any:
    return field(default_factory=kind, metadata={"table": kind, "says": says})


def tables(kind: type, says: str, *, named: bool) -> Any:
    """Many of a kind: `[name.NAME]` where named, else `[[name]]`."""
    return field(default=(), metadata={"tables": kind, "named": named, "says": says})
