"""JSON of answers, read and written so that only what is meant to changes (rule P3).

Members keep their order and numbers their text: a number that would be written otherwise than it was told is read as a
ready-made fragment.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from foretold.contract.canonical import check_limits
from foretold.errors import Malformed

LONGEST_NUMBER = 15
"""Characters of the longest whole number that is read as one: every JSON reader holds it exactly."""


def object_in(text: bytes | str) -> dict[str, Any] | None:
    """The object that a JSON text is, given as it is or as its bytes.

    None if it is none: another value, no JSON, more than rule K8 lets in, or with a lone surrogate or a number beyond
    a double's.
    """
    content = text.encode() if isinstance(text, str) else text
    try:
        check_limits(content)
        value = orjson.loads(content)
    except (Malformed, orjson.JSONDecodeError):
        return None
    if not isinstance(value, dict):
        return None
    # Most texts are written as we would write them, numbers and all; only the others need the slower reader.
    if _LONG_NUMBER.search(content) is None and orjson.dumps(value) == content:
        return value
    decoded: dict[str, Any] = _DECODER.decode(content.decode())
    return decoded


def written(value: Any) -> bytes:
    """The JSON text of a value, without white space."""
    return orjson.dumps(value)


def _whole_number(text: str) -> int | orjson.Fragment:
    return int(text) if len(text) <= LONGEST_NUMBER and text != "-0" else orjson.Fragment(text)


def _other_number(text: str) -> float | orjson.Fragment:
    number = float(text)
    return number if orjson.dumps(number) == text.encode() else orjson.Fragment(text)


_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % LONGEST_NUMBER)
_DECODER = json.JSONDecoder(parse_int=_whole_number, parse_float=_other_number)
