"""Vectors of float32, as lists of JSON numbers and as base64 (rules P1 and P3): exact both ways."""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Iterable
from typing import Any

# Anything nearer to zero than this is a finite float32 once rounded.
BEYOND = float.fromhex("0x1.ffffffp+127")
_MOST_DIGITS = 9
# All decimals of six digits are different floats; only floats nearer to zero than this may need fewer to be told.
_SIX_DIGITS, _SMALLEST_NORMAL = 6, 2.0**-126


def of_numbers(numbers: Iterable[float]) -> bytes:
    """Each number as the nearest float32, little-endian; each must lie within `BEYOND`."""
    return _little_endian(array("f", numbers)).tobytes()


def of_base64(text: str) -> bytes | None:
    """The floats that a base64 text tells, little-endian; None if it is none of one or more finite floats."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not content or len(content) % 4:
        return None
    return content if all(map(math.isfinite, _floats(content))) else None


def dimensions(embedding: Any) -> int | None:
    """How long a vector is, told in either form; None if it is none: empty, or not of finite floats."""
    if isinstance(embedding, str):
        content = of_base64(embedding)
        return None if content is None else len(content) // 4
    if not isinstance(embedding, list) or not embedding or not set(map(type, embedding)) <= {int, float}:
        return None
    return len(embedding) if min(embedding) > -BEYOND and max(embedding) < BEYOND else None


def as_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def as_numbers(content: bytes) -> bytes:
    """The JSON list of the floats, each with the fewest digits that read back to it, as ECMAScript writes them."""
    floats = _floats(content)
    shown = [float(f"{x:.{_MOST_DIGITS}g}") for x in floats]
    fewest = 1 if any(0 < abs(x) < _SMALLEST_NORMAL for x in floats) else _SIX_DIGITS
    for digits in range(_MOST_DIGITS - 1, fewest - 1, -1):
        shorter = [float(f"{x:.{digits}g}") for x in floats]
        back = array("f", shorter)
        shown = [s if b == x else longer for s, b, x, longer in zip(shorter, back, floats, shown, strict=True)]
    return f"[{','.join(map(_text, shown))}]".encode()


def _text(x: float) -> str:
    """A number as ECMAScript writes it; but -0 keeps its sign."""
    text = repr(x)
    if text == "-0.0":
        return text
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text.removesuffix(".0")
    power = int(exponent)
    if -7 < power < 0:
        digits = mantissa.lstrip("-").replace(".", "")
        return f"{'-' if x < 0 else ''}0.{'0' * (-power - 1)}{digits}"
    if 0 < power < 21:
        whole, _, fraction = mantissa.removesuffix(".0").partition(".")
        return whole + fraction + "0" * (power - len(fraction))
    return f"{mantissa.removesuffix('.0')}e{power:+d}"


def _floats(content: bytes) -> array[float]:
    floats = array("f")
    floats.frombytes(content)
    return _little_endian(floats)


def _little_endian(floats: array[float]) -> array[float]:
    if sys.byteorder == "big":
        floats.byteswap()
    return floats
