"""A documented `foretold.toml` with every setting, and the settings in force."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from foretold.config.settings import Config
from foretold.config.values import Secret

_INTRO = """\
# foretold.toml: every setting, with its default or, where it has none, an example.  All of it is optional; `foretold config check` after editing.
# Quantities carry their unit: "1h", "256 MiB".  Secrets come from the environment or a file, never from here.
"""

_SAMPLE_NAMES = {"upstreams": "openai", "models": "smollm2-135m"}


def example() -> str:
    """A file that changes nothing until a line is uncommented; it names one table of each kind."""
    return _INTRO + "\n" + "\n".join(_lines(Config)) + "\n"


def shown(config: Config) -> dict[str, Any]:
    """The settings in force, secrets by where they come from."""
    told: dict[str, Any] = _told(config)
    return told


def _lines(kind: type) -> Iterator[str]:
    members = [f for f in dataclasses.fields(kind) if f.metadata]
    for member in members:
        if "read" in member.metadata:
            yield f"# {member.name} = {member.metadata['shown']}  # {member.metadata['says']}"
    for member in members:
        metadata = member.metadata
        if "table" in metadata:
            yield f"\n# {metadata['says']}\n[{member.name}]"
            yield from _lines(metadata["table"])
        elif "tables" in metadata:
            header = f"[{member.name}.{_SAMPLE_NAMES[member.name]}]" if metadata["named"] else f"[[{member.name}]]"
            yield f"\n# {metadata['says']}\n# {header}"
            yield from _lines(metadata["tables"])


def _member(member: dataclasses.Field[Any], value: Any) -> Any:
    """A quantity as a file would have it, with its unit."""
    show = getattr(member.metadata.get("read"), "show", None)
    return show(value) if show is not None and value is not None else _told(value)


def _told(value: Any) -> Any:
    if isinstance(value, Secret):
        return {"from": value.where}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _member(f, getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_told(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
