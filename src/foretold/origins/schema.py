"""Which JSON schemas a local engine may be held to.

The engine turns a schema into a grammar.  What it does not know it leaves out without a word, and the answer breaks
the schema; bounds that contradict each other, and patterns, made it hang for good.  So the keywords are a closed list:
those it was seen to obey.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from foretold.origins.refusing import bad_value, count, depth, unknown_field

LARGEST_BYTES = 16 * 1024
DEEPEST = 16
# Each alternative costs a few milliseconds for every token while all slots wait: 3,000 took seconds a token.
MOST_VALUES = 1000
MOST_REPEATS = 1000
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})
_MAX_EXACT = 2**53 - 1


def response_format(name: str, value: Any) -> dict[str, Any] | None:
    """None for plain text, which needs no format."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind != "json_schema" or not isinstance(value.get("json_schema"), dict):
        raise bad_value(name, value, 'of `type` "text", "json_object" or "json_schema"')
    given = value["json_schema"]
    place = f"{name}.json_schema"
    for member in given:
        if member not in ("name", "description", "schema", "strict"):
            raise unknown_field(f"{place}.{member}", known=("name", "description", "schema", "strict"))
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": checked(f"{place}.schema", given.get("schema"))},
    }


def checked(name: str, value: Any) -> dict[str, Any]:
    """The schema itself, if the engine can be held to it."""
    if not isinstance(value, dict):
        raise bad_value(name, value, "a JSON schema")
    if depth(value, most=2 * DEEPEST) > 2 * DEEPEST:
        raise bad_value(name, value, f"a schema nested no deeper than {DEEPEST}")
    if len(orjson.dumps(value)) > LARGEST_BYTES:
        raise bad_value(name, value, f"a schema of at most {LARGEST_BYTES} bytes")
    _check(name, value)
    if _Expansion(name, value).values > MOST_VALUES:
        raise bad_value(
            name, value, f"a schema of at most {MOST_VALUES} values, those that `$ref` names counted each time"
        )
    return value


class _Expansion:
    """How many values a schema has once every `$ref` is replaced by what it names; refuses one that never ends.

    The engine follows all alternatives at once, so references to references multiply its work without limit.
    """

    def __init__(self, name: str, root: dict[str, Any]):
        self._name = name
        self._root = root
        self._sizes: dict[str, int] = {}
        self._open: set[str] = set()
        self.values = self._size(root)

    def _size(self, value: Any) -> int:
        if isinstance(value, list):
            return 1 + sum(map(self._size, value))
        if not isinstance(value, dict):
            return 1
        reference = value.get("$ref")
        own = 1 + sum(self._size(member) for keyword, member in value.items() if keyword != "$ref")
        return own + self._size_of_named(reference) if isinstance(reference, str) else own

    def _size_of_named(self, reference: str) -> int:
        if reference in self._open:
            raise bad_value(f"{self._name}.$ref", reference, "a schema that does not contain itself")
        if reference not in self._sizes:
            if len(self._open) >= DEEPEST:
                raise bad_value(f"{self._name}.$ref", reference, f"no more than {DEEPEST} references in a row")
            self._open.add(reference)
            self._sizes[reference] = self._size(self._named(reference))
            self._open.remove(reference)
        return self._sizes[reference]

    def _named(self, reference: str) -> Any:
        value: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            if not isinstance(value, dict) or step not in value:
                raise bad_value(f"{self._name}.$ref", reference, "the place of a schema within this one")
            value = value[step]
        return value


def _check(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise bad_value(name, value, "a schema that is an object")
    for keyword, member in value.items():
        rule = _KEYWORDS.get(keyword)
        if rule is None:
            raise unknown_field(f"{name}.{keyword}", known=_KEYWORDS)
        rule(f"{name}.{keyword}", member)
    _check_order(name, value, "minItems", "maxItems")
    _check_order(name, value, "minLength", "maxLength")
    _check_whole_bounds(name, value)
    missing = set(value.get("required", ())) - set(value.get("properties", ()))
    if missing:
        raise bad_value(f"{name}.required", value["required"], "only names that are in `properties`")


def _check_order(name: str, value: Mapping[str, Any], least: str, most: str) -> None:
    if least in value and most in value and value[least] > value[most]:
        raise bad_value(f"{name}.{least}", value[least], f"no more than `{most}`")


def _check_whole_bounds(name: str, value: Mapping[str, Any]) -> None:
    bounds = [n for n in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if n in value]
    if not bounds:
        return
    if value.get("type") != "integer":
        raise bad_value(f"{name}.{bounds[0]}", value[bounds[0]], 'a bound of `"type": "integer"`, no other is obeyed')
    lowest = max(value.get("minimum", -_MAX_EXACT), value.get("exclusiveMinimum", -_MAX_EXACT) + 1)
    highest = min(value.get("maximum", _MAX_EXACT), value.get("exclusiveMaximum", _MAX_EXACT) - 1)
    if lowest > highest:
        raise bad_value(f"{name}.{bounds[0]}", value[bounds[0]], "bounds with a number between them")


def _schemas_by_name(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise bad_value(name, value, "an object of schemas")
    for member, inner in value.items():
        _check(f"{name}.{member[:64]}", inner)


def _schemas(name: str, value: Any) -> None:
    if not isinstance(value, list) or not value:
        raise bad_value(name, value, "a list of schemas")
    for i, inner in enumerate(value):
        _check(f"{name}[{i}]", inner)


def _flag_or_schema(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        _check(name, value)


def _type(name: str, value: Any) -> None:
    kinds = value if isinstance(value, list) else [value]
    if not kinds or not all(isinstance(kind, str) and kind in _TYPES for kind in kinds):
        raise bad_value(name, value, f"one or more of {', '.join(sorted(_TYPES))}")


def _values(name: str, value: Any) -> None:
    if not isinstance(value, list) or not value:
        raise bad_value(name, value, "a list of values")


def _names(name: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise bad_value(name, value, "a list of names")


def _format(name: str, value: Any) -> None:
    if not isinstance(value, str) or value not in _FORMATS:
        raise bad_value(name, value, f"one of {', '.join(sorted(_FORMATS))}")


def _reference(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value.startswith("#/"):
        raise bad_value(name, value, "a place in this schema, such as #/$defs/item")


def _repeats(name: str, value: Any) -> None:
    count(name, value, 0, MOST_REPEATS)


def _whole(name: str, value: Any) -> None:
    count(name, value, -_MAX_EXACT, _MAX_EXACT)


def _anything(name: str, value: Any) -> None:
    """Said for people, or a value of any kind."""


_KEYWORDS: dict[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(("title", "description", "default", "examples", "$schema", "$comment", "const"), _anything),
    "type": _type,
    "properties": _schemas_by_name,
    "$defs": _schemas_by_name,
    "definitions": _schemas_by_name,
    "required": _names,
    "additionalProperties": _flag_or_schema,
    "items": _check,
    "prefixItems": _schemas,
    "anyOf": _schemas,
    "oneOf": _schemas,
    "allOf": _schemas,
    "enum": _values,
    "$ref": _reference,
    "format": _format,
    "minItems": _repeats,
    "maxItems": _repeats,
    "minLength": _repeats,
    "maxLength": _repeats,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _whole),
}
