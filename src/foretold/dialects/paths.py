"""Paths, parsed once: segments are decoded, and forms that two parsers could read in two ways are refused."""

from __future__ import annotations

import re
from urllib.parse import unquote

from foretold.errors import Refused

_HALF_AN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def is_models_list(path: str) -> bool:
    return without_v1(segments_of(path)) == ("models",)


def model_named(path: str) -> str | None:
    """The model of `/v1/models/{model}`."""
    segments = without_v1(segments_of(path))
    return "/".join(segments[1:]) if len(segments) > 1 and segments[0] == "models" else None


def segments_of(path: str) -> tuple[str, ...]:
    """The decoded segments of a raw path, doubled and final slashes tolerated.

    Raises Refused for dot segments and half escapes, and for encoded slashes, backslashes, NULs and whatever isn't
    UTF-8.
    """
    segments = []
    for raw in path.split("/"):
        try:
            segment = unquote(raw, errors="strict") if "%" in raw else raw
        except UnicodeDecodeError:
            raise Refused("the path is not UTF-8", code="bad_path") from None
        if (
            segment in (".", "..")
            or ";" in segment
            or any(c in segment for c in "/\\\x00")
            or not segment.isprintable()
            or ("%" in raw and _HALF_AN_ESCAPE.search(raw))
        ):
            raise Refused("the path has a dot segment or a character that paths may not have", code="bad_path")
        if segment:
            segments.append(segment)
    return tuple(segments)


def without_v1(segments: tuple[str, ...]) -> tuple[str, ...]:
    while segments[:1] == ("v1",):
        segments = segments[1:]
    return segments
