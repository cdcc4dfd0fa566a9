"""From a TOML text to settings.  Whatever is unknown, impossible or contradictory is an error with file and line."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from foretold.config import values
from foretold.config.checking import check
from foretold.config.engines import Fail
from foretold.config.settings import Config
from foretold.errors import ConfigError

Place = tuple[str | int, ...]
Settings = TypeVar("Settings")

# Because of what could stand there, or because the message names the part that is wrong.
_NEVER_SHOWN = (
    values.secret,
    values.headers,
    values.environment,
    values.api_key_digest,
    values.address,
    values.maybe_address,
    values.model_source,
    values.keyed_headers,
    values.inert_headers,
)
_HEADER = re.compile(r"\s*\[(\[?)\s*([^\[\]]+?)\s*\]")
_MEMBER = re.compile(r"""\s*((?:[A-Za-z0-9_.-]+|"[^"]*"|'[^']*')+)\s*=""")


def load_file(path: Path) -> Config:
    """Raises ConfigError."""
    return load(read_text(path), file=path)


def load(text: str, *, file: Path | None = None) -> Config:
    """The checked settings of a TOML text.  Raises ConfigError."""
    config = load_as(Config, text, name=str(file) if file is not None else "the settings", check=check)
    return dataclasses.replace(config, file=file)


def read_text(path: Path) -> str:
    """Raises ConfigError."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as e:
        raise ConfigError(f"{path} can't be read: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None


def load_as(kind: type[Settings], text: str, *, name: str, check: Callable[[Settings, Fail], None]) -> Settings:
    """The checked settings of a TOML text, as tables of `kind`; `name` is what errors call it.  Raises ConfigError."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise ConfigError(f"{name} is not TOML: {e}") from None
    reader = _Reader(text, name)
    settings: Settings = reader.table(kind, given, ())
    check(settings, reader.error)
    return settings


class _Reader:
    def __init__(self, text: str, name: str):
        self._text = text
        self._name = name

    def table(self, kind: type, given: Any, place: Place, **fixed: Any) -> Any:
        if not isinstance(given, dict):
            raise self.error(place, "give a table")
        known = {f.name: f for f in dataclasses.fields(kind) if f.metadata}
        for name in given:
            if name not in known:
                raise self.error((*place, name), _unknown(name, known))
        read = {name: self._member(known[name], value, (*place, name)) for name, value in given.items()}
        missing = [
            f.name
            for f in known.values()
            if f.default is f.default_factory is dataclasses.MISSING and f.name not in read
        ]
        if missing:
            raise self.error(place, f"`{missing[0]}` is missing: {known[missing[0]].metadata['says']}")
        return kind(**read, **fixed)

    def error(self, place: Place, says: str) -> ConfigError:
        line = _line_of(self._text, place)
        where = f"{self._name}:{line}" if line else self._name
        named = ".".join(f"[{p}]" if isinstance(p, int) else p for p in place).replace(".[", "[")
        return ConfigError(f"{where}: {named}: {says}" if named else f"{where}: {says}")

    def _member(self, member: dataclasses.Field[Any], value: Any, place: Place) -> Any:
        metadata: Mapping[str, Any] = member.metadata
        if "table" in metadata:
            return self.table(metadata["table"], value, place)
        if "tables" in metadata:
            return self._tables(metadata["tables"], value, place, named=metadata["named"])
        try:
            return metadata["read"](value)
        except ValueError as e:
            found = "" if _is_private(metadata["read"]) else f"is {_shown(value)}: "
            raise self.error(place, f"{found}{e}") from None

    def _name_of(self, name: str, place: Place) -> str:
        try:
            return values.text(name)
        except ValueError as e:
            raise self.error(place, f"a name in it is {_shown(name)}: {e}") from None

    def _tables(self, kind: type, value: Any, place: Place, *, named: bool) -> tuple[Any, ...]:
        if named:
            if not isinstance(value, dict):
                raise self.error(place, f"give tables such as [{place[-1]}.NAME]")
            return tuple(
                self.table(kind, given, (*place, name), name=self._name_of(name, place))
                for name, given in value.items()
            )
        if not isinstance(value, list):
            raise self.error(place, f"give tables such as [[{place[-1]}]]")
        return tuple(self.table(kind, given, (*place, at)) for at, given in enumerate(value))


def _is_private(read: values.Reader) -> bool:
    return read in _NEVER_SHOWN or getattr(read, "is_private", False)


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"unknown setting; {hint}known here: {', '.join(sorted(known))}"


def _shown(value: Any) -> str:
    """A value as the file has it; never the inside of a table, which could be a secret."""
    return "a table" if isinstance(value, (dict, list)) else repr(value)[:80]


def _line_of(text: str, place: Place) -> int | None:
    """The line a place stands on, or that of the nearest table or member around it."""
    best: tuple[int, int] | None = None
    current: Place = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            if header[1]:
                counts[name] = counts.get(name, -1) + 1
            current = _parts(name) + ((counts[name],) if header[1] else ())
            here = current
        elif member := _MEMBER.match(line):
            here = current + _parts(member[1])
        else:
            continue
        if here == place[: len(here)] and (best is None or len(here) > best[0]):
            best = (len(here), number)
    return best[1] if best else None


def _parts(name: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in re.findall(r'"[^"]*"|\'[^\']*\'|[^.]+', name))
