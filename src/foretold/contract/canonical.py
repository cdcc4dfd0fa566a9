"""JSON texts in one form: RFC 8785, and what has none (rule K8).

orjson's sorted output is RFC 8785 but for three things, each mended here: how some floats are written, numbers that
a double cannot hold exactly, and the order of names outside the basic plane.  Values returned by `read` are settled:
floats that are whole numbers are ints, and very small floats are ready-made fragments.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from foretold.errors import Malformed

MAX_EXACT = 2**53 - 1
MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 128
MAX_VALUES = 1_000_000

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_EMPTY_CONTAINER = re.compile(rb"\[\s*\]|\{\s*\}")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND_OF_BRACKET = bytes.maketrans(b"{}", b"[]")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class Unkeyable(Exception):
    """A JSON text that is sound but has no key: number, surrogate, repeat or size."""

    def __init__(self, why: str):
        super().__init__(why)
        self.why = why


def read(text: bytes) -> Any:
    """The settled value of a JSON text.

    Raises Malformed for what is not JSON or passes a limit, Unkeyable for what is JSON but has no one meaning.
    Repeated names are looked for first, then lone surrogates, then numbers.
    """
    if len(text) > MAX_BYTES:
        raise Unkeyable("size")
    if len(text) > MAX_VALUES or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        check_limits(text)  # a text of fewer bytes has no more values, one of fewer brackets is no deeper
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as e:
        raise _tolerant_verdict(text, e) from None
    if _has_repeat(text, value):
        raise Unkeyable("repeat")
    return settle(value)


def canonical(value: Any) -> bytes:
    """The RFC 8785 text of a settled value."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if text.isascii() or not _needs_utf16_order(text, value):
        return text
    return orjson.dumps(_in_utf16_order(value))


def in_utf16_units(name: str) -> bytes:
    """What names are sorted by (RFC 8785 section 3.2.3)."""
    return name.encode("utf-16-be", "surrogatepass")


def settle(value: Any) -> Any:
    """The value with every number in its canonical form; raises Unkeyable("number") where there is none."""
    kind = type(value)
    if kind is dict:
        for name, member in value.items():
            # Most of what there is are texts: they never make a call.
            if type(member) is not str and (settled := settle(member)) is not member:
                value[name] = settled
        return value
    if kind is list:
        for i, item in enumerate(value):
            if type(item) is not str and (settled := settle(item)) is not item:
                value[i] = settled
        return value
    if kind is int:
        if -MAX_EXACT <= value <= MAX_EXACT:
            return value
        raise Unkeyable("number")
    return _settled_float(value) if kind is float else value


def _settled_float(value: float) -> Any:
    if not -MAX_EXACT <= value <= MAX_EXACT:
        raise Unkeyable("number")
    if value.is_integer():
        return int(value)
    if abs(value) >= 1e-5:
        return value
    return orjson.Fragment(_ecmascript_small(value))


def check_limits(text: bytes) -> None:
    """Raises Malformed over 128 brackets open at once or 1,000,000 values, at a cost linear in the text.

    Counted before parsing, so that no text makes the parser build more than the limits allow.
    """
    brackets = text.count(b"[") + text.count(b"{")
    values = text.count(b",") + brackets + 1
    if brackets <= MAX_DEPTH and values <= MAX_VALUES:
        return
    bare = _STRING.sub(b'""', text)
    opened = bare.count(b"[") + bare.count(b"{")
    empty = len(_EMPTY_CONTAINER.findall(bare)) if opened else 0
    if bare.count(b",") + opened - empty + 1 > MAX_VALUES:
        raise Malformed(f"the JSON has more than {MAX_VALUES:,} values: send less at once")
    nest = bare.translate(_ONE_KIND_OF_BRACKET, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not nest:
            return
        flatter = nest.replace(b"[]", b"")
        if len(flatter) == len(nest):
            return  # brackets that do not match: the parser says so
        nest = flatter
    if nest:
        raise Malformed(f"the JSON is nested deeper than {MAX_DEPTH} levels: make it flatter")


def _tolerant_verdict(text: bytes, error: orjson.JSONDecodeError) -> Malformed | Unkeyable:
    """What a second, tolerant reader says of a text that the strict one refused."""
    members = _Members()
    try:
        whole = json.loads(
            text.decode("utf-8"), parse_int=float, parse_constant=_no_constant, object_pairs_hook=members.of
        )
    except (ValueError, RecursionError):
        return Malformed(f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}")
    if members.repeated:
        return Unkeyable("repeat")
    if _SURROGATE_ESCAPE.search(text) and _has_lone_surrogate(whole):
        return Unkeyable("surrogate")
    return Unkeyable("number")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _has_lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, dict):
        return any(_has_lone_surrogate(k) or _has_lone_surrogate(v) for k, v in value.items())
    if isinstance(value, list):
        return any(_has_lone_surrogate(v) for v in value)
    return False


def _has_repeat(text: bytes, value: Any) -> bool:
    """Whether any object names a member twice.

    The parser keeps the last of them, so its value shows fewer colons than the text; exact unless the text
    writes a colon as an escape.
    """
    if b"\\u003" not in text:
        return text.count(b":") != orjson.dumps(value).count(b":")
    members = _Members()
    json.loads(text, object_pairs_hook=members.of)
    return members.repeated


class _Members:
    """Builds objects for json.loads and remembers whether any named a member twice."""

    repeated = False

    def of(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        self.repeated |= len(members) < len(pairs)
        return members


def _ecmascript_small(x: float) -> bytes:
    """How ECMAScript writes a float below 1e-5 (ECMA-262, Number::toString)."""
    mantissa, _, exponent = repr(x).partition("e")
    if exponent and int(exponent) < -6:
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}".encode()
    sign = "-" if x < 0 else ""
    digits = mantissa.lstrip("-").replace(".", "").rstrip("0")
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{digits}".encode()


def _needs_utf16_order(text: bytes, value: Any) -> bool:
    """Whether names sort otherwise by UTF-16 units than by code points: only beside each other above U+FFFF and
    in U+E000 to U+FFFF."""
    if not any(lead in text for lead in (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")):
        return False
    if b"\xee" not in text and b"\xef" not in text:
        return False
    return _any_mixed_object(value)


def _any_mixed_object(value: Any) -> bool:
    if isinstance(value, list):
        return any(_any_mixed_object(v) for v in value)
    if not isinstance(value, dict):
        return False
    if any(c > "\uffff" for k in value for c in k) and any("\ue000" <= c <= "\uffff" for k in value for c in k):
        return True
    return any(_any_mixed_object(v) for v in value.values())


def _in_utf16_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_utf16_order(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {k: _in_utf16_order(value[k]) for k in sorted(value, key=in_utf16_units)}
