"""Single values: a quantity carries its unit, so that nobody takes seconds for milliseconds.

Each reader takes what TOML gives and returns what the program uses, or raises ValueError with what would be right.
"""

from __future__ import annotations

import base64
import os
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from foretold.config import fields
from foretold.contract.freshness import CEILING_S

Reader = Callable[[Any], Any]
V = TypeVar("V")

_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_HOST_AND_PORT = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that is never shown: `where` says where it came from."""

    where: str
    text: str = field(repr=False)


def shown_size(count: int) -> str:
    """As a settings file has it."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _BYTES[unit] == 0:
            return f"{count // _BYTES[unit]} {unit}"
    return f"{count} B"


def shown_duration(seconds: float) -> str:
    """As a settings file has it."""
    for unit in ("d", "h", "min"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g} {unit}"
    return f"{seconds:g} s"


def shown_by(show: Callable[[Any], str]) -> Callable[[V], V]:
    """Marks a reader whose values are shown with their unit."""

    def mark(reader: V) -> V:
        reader.show = show  # type: ignore[attr-defined]
        return reader

    return mark


def text(value: Any) -> str:
    """On one line: names stand in keys, logs and metrics, where a line end would make two of one."""
    if not isinstance(value, str) or not value:
        raise ValueError("give a text")
    return _on_one_line(value)


def maybe_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("give a text")
    return _on_one_line(value)


def _on_one_line(value: str) -> str:
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in value):
        raise ValueError("give a text without line ends and other control characters")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("give true or false")
    return value


def texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise ValueError('give a list of texts, such as ["a", "b"]')
    return tuple(_on_one_line(v) for v in value)


def _list_of_texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValueError('give a list of names, such as ["x-a", "x-b"]')
    return value


def keyed_headers(value: Any) -> tuple[str, ...]:
    return tuple(fields.keyed_name(name) for name in _list_of_texts(value))


def inert_headers(value: Any) -> tuple[str, ...]:
    return tuple(fields.inert_name(name) for name in _list_of_texts(value))


def headers(value: Any) -> tuple[tuple[str, str | Secret], ...]:
    """Names and values; a value that is a secret comes from outside as every secret does."""
    if not isinstance(value, dict) or not all(isinstance(v, (str, dict)) for v in value.values()):
        raise ValueError('give a table of texts, such as { x-team = "web" }')
    read: dict[str, str | Secret] = {}
    for given, v in value.items():
        settled = v if isinstance(v, str) else secret(v)
        name = fields.fixed_field(given, settled if isinstance(settled, str) else settled.text)
        if name in read:
            raise ValueError(f"{name!r} is given twice")
        read[name] = settled
    return tuple(read.items())


def number(least: int, most: int) -> Reader:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"give a whole number from {least} to {most}")
        return value

    return read


def choice(*allowed: str) -> Reader:
    def read(value: Any) -> str:
        if value not in allowed:
            raise ValueError("give one of " + ", ".join(f'"{a}"' for a in allowed))
        return str(value)

    return read


def duration(*, least_s: float = 0, most_s: float = CEILING_S) -> Reader:
    """Seconds as a float."""

    @shown_by(shown_duration)
    def read(value: Any) -> float:
        seconds = float(_quantity(value, _SECONDS, 's" or "1h'))
        if not least_s <= seconds <= most_s:
            raise ValueError(f'give a duration from "{least_s:g} s" to "{most_s:g} s"')
        return seconds

    return read


def shown_keep_alive(seconds: float) -> str:
    return "-1" if seconds < 0 else shown_duration(seconds)


@shown_by(shown_keep_alive)
def keep_alive(value: Any) -> float:
    """Seconds; below 0 for as long as there is room."""
    if value in (0, -1) and type(value) is int:
        return float(value)
    try:
        seconds: float = duration()(value)
    except ValueError:
        raise ValueError('give a duration such as "5 min", 0 for none, or -1 for as long as there is room') from None
    return seconds


@shown_by(shown_duration)
def lifetime(value: Any) -> int:
    """Whole seconds up to the ceiling of rule F1; `forever` is the ceiling."""
    if value == "forever":
        return CEILING_S
    duration()(value)
    seconds = _quantity(value, _SECONDS, 's" or "1h')
    if seconds.denominator != 1:
        raise ValueError('give whole seconds, such as "1 s"')
    return int(seconds)


def size(*, least_bytes: int = 0, most_bytes: int | None = None) -> Reader:
    @shown_by(shown_size)
    def read(value: Any) -> int:
        count = int(_quantity(value, _BYTES, 'MiB" or "2 GiB'))
        if count < least_bytes:
            raise ValueError(f'give at least "{shown_size(least_bytes)}"')
        if most_bytes is not None and count > most_bytes:
            raise ValueError(f'give at most "{shown_size(most_bytes)}"')
        return count

    return read


def secret(value: Any) -> Secret:
    """`{ env = "NAME" }` or `{ file = "PATH" }`; never the secret itself."""
    match value:
        case {"env": str(name), **rest} if not rest:
            if not os.environ.get(name, "").strip():
                raise ValueError(f"the environment variable {name} is not set")
            return _one_line_secret(f"environment variable {name}", os.environ[name])
        case {"file": str(name), **rest} if not rest:
            try:
                content = Path(name).expanduser().read_text()
            except OSError as e:
                raise ValueError(f"the file {name} can't be read: {e.strerror}") from None
            except UnicodeDecodeError:
                raise ValueError(f"the file {name} is not UTF-8 text") from None
            return _one_line_secret(f"file {name}", content)
    raise ValueError('secrets come from outside: give { env = "NAME" } or { file = "PATH" }')


def _one_line_secret(where: str, content: str) -> Secret:
    content = content.strip()
    if not content:
        raise ValueError(f"the {where} is empty")
    fields.check_value(content, f"the {where}")
    return Secret(where, content)


def api_key_digest(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError("give the SHA-256 of the API key as 64 hex digits: `foretold config api-key` makes one")
    return value


def revision(value: Any) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise ValueError("give the revision of a manifest, 64 hex digits: `foretold models show` tells it")
    return value


def callable_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(
        r"(?:[^\W\d]\w*\.)*[^\W\d]\w*:(?:[^\W\d]\w*\.)*[^\W\d]\w*", value
    ):
        raise ValueError('give a module and a function of it, such as "answers:reply"')
    return value


def environment(value: Any) -> tuple[tuple[str, str | Secret], ...]:
    """Names and values of variables; a value that is a secret comes from outside as every secret does."""
    if not isinstance(value, dict) or not all(isinstance(v, (str, dict)) for v in value.values()):
        raise ValueError('give a table of texts, such as { CUDA_VISIBLE_DEVICES = "0" }')
    wrong = next((name for name in value if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no name of a variable: give letters, digits and _")
    if any("\0" in v for v in value.values() if isinstance(v, str)):
        raise ValueError("give values without NUL characters")
    return tuple((name, v if isinstance(v, str) else secret(v)) for name, v in value.items())


def capabilities(value: Any) -> tuple[str, ...]:
    able = texts(value)
    if not set(able) <= {"chat", "completion", "tools"} or not {"chat", "completion"} & set(able):
        raise ValueError("give chat, completion, or both, and perhaps tools")
    return able


def public_key(value: Any) -> str:
    """`ed25519:` and 32 bytes as base64."""
    scheme, _, encoded = value.partition(":") if isinstance(value, str) else ("", "", "")
    try:
        length = len(base64.b64decode(encoded, validate=True))
    except ValueError:
        length = 0
    if scheme != "ed25519" or length != 32:
        raise ValueError('give public keys such as "ed25519:…": `foretold models key FILE` makes one')
    return str(value)


def public_keys(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError('give a list of public keys, such as ["ed25519:…"]')
    return tuple(public_key(key) for key in value)


def model_source(value: Any) -> str:
    """`bundled`, or a library's address in its one form."""
    if value == "bundled":
        return "bundled"
    if not isinstance(value, str) or not re.match(r"(s3|r2|file)://[^/]*/?[^/]", value) or not value.isprintable():
        raise ValueError('give "bundled", or the address of a library, such as "s3://BUCKET/PREFIX"')
    if "@" in value.partition("://")[2].split("/")[0]:
        raise ValueError("give an address without credentials: they come from outside, see [library]")
    return value


def address(value: Any) -> str:
    """Scheme, host, perhaps a port and a path: paths and query strings of requests are put behind it."""
    if not isinstance(value, str) or not re.match(r"https?://[^/?#]", value) or not _is_plain(value):
        raise ValueError('give an address such as "https://api.example.com/v1"')
    rest = value.partition("://")[2]
    netloc, _, path = rest.partition("/")
    if "@" in netloc:
        raise ValueError("give an address without credentials: they come from outside, as `key` or in `headers`")
    if "?" in rest or "#" in rest:
        raise ValueError("give an address that ends with its path: query strings are each request's own")
    found = _HOST_AND_PORT.fullmatch(netloc)
    if found is None or not 1 <= int(found[2] or 1) <= 65535:
        raise ValueError("give a host, and a port from 1 to 65535 if it is not the usual one")
    if {".", ".."} & set(path.split("/")):
        raise ValueError("give an address without dot segments")
    return value


def maybe_address(value: Any) -> str:
    return "" if value == "" else address(value)


def route_path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or value.startswith("/-/"):
        raise ValueError('give a path that begins with "/", and not with "/-/"')
    if "?" in value or "#" in value:
        raise ValueError("give a path alone: query strings go along and count by themselves")
    if not _is_plain(value) or ";" in value or {".", ".."} & set(value.split("/")):
        raise ValueError("give a path as it is sent: no spaces, no backslashes, no `;`, no dot segments")
    return value


def _is_plain(value: str) -> bool:
    """Whether an address or a path has only characters that one is sent with."""
    return all("!" <= c <= "~" and c not in '"<>\\^`{|}' for c in value)


def _quantity(value: Any, units: dict[str, Any], example: str) -> Fraction:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f'{value} of what? give the unit: "{value}{example}"')
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None or found[2] not in units:
        raise ValueError(f"give a number and a unit ({', '.join(units)})")
    return Fraction(found[1]) * Fraction(str(units[found[2]]))
