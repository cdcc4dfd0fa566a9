"""Schemas: only what the engine was seen to obey, and nothing that made it hang."""

from __future__ import annotations

import pytest

from foretold.errors import Refused
from foretold.origins.schema import LARGEST_BYTES, checked, response_format


def nested(levels: int) -> dict:
    schema: dict = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def branching(levels: int, alternatives: int) -> dict:
    """References to references: as many ways as alternatives to the power of levels."""
    steps = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * alternatives} for i in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{levels}": {"type": "integer"}}}


def chain(links: int) -> dict:
    """A reference to a reference to a reference …"""
    steps = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(links)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{links}": {"type": "integer"}}}


def refusal(schema) -> Refused:
    with pytest.raises(Refused) as refused:
        checked("s", schema)
    return refused.value


TAKEN = [
    {},
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 0, "maxItems": 1000},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
    {"type": "string", "minLength": 1, "maxLength": 1},
    {"type": "string", "format": "date-time"},
    {"type": "integer", "minimum": -5, "exclusiveMaximum": 6},
    {"type": ["string", "null"]},
    {"enum": [1, "a", None]},
    {"const": {"a": [1]}},
    branching(2, 3),
    {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "null", "title": "nothing"}}},
    {"description": "said for people", "examples": [{"pattern": "x"}], "default": None, "type": "boolean"},
    nested(15),
]


HANGS = [
    branching(20, 10),
    {"enum": list(range(3000))},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 5, "maxItems": 2},
    {"type": "string", "minLength": 5, "maxLength": 2},
    {"type": "string", "pattern": "^(a?){2000}$"},
]

FAILS = [
    {"type": "integer", "minimum": 5, "maximum": 2},
    {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 6},
    {"type": "string", "minLength": 5000},
    {"type": "array", "maxItems": 10**9},
    {"type": "integer", "minimum": -1e30},
]

LEFT_OUT_WITHOUT_A_WORD = [
    {"type": "string", "pattern": "["},
    {"type": "string", "format": "nope"},
    {"type": "number", "minimum": 0.5},
    {"minimum": 1},
    {"type": "integer", "minimum": 1.5},
    {"type": "integer", "multipleOf": 7},
    {"type": "array", "uniqueItems": True},
    {"type": "object", "minProperties": 3},
    {"type": "object", "patternProperties": {"a": {}}},
    {"type": "object", "required": ["not among its properties"]},
    {"not": {"type": "string"}},
    {"type": "object", "properties": {"a": {"dependentRequired": {}}}},
]

NO_SCHEMA = [
    None,
    [],
    "x",
    True,
    {"type": "objekt"},
    {"type": []},
    {"type": {}},
    {"type": [["string"]]},
    {"properties": []},
    {"properties": {"a": False}},
    {"required": "a"},
    {"required": [1]},
    {"required": [[]]},
    {"items": []},
    {"items": True},
    {"anyOf": []},
    {"anyOf": {}},
    {"allOf": [1]},
    {"enum": []},
    {"enum": "x"},
    {"$ref": "#"},
    {"$ref": "other.json"},
    {"$ref": "#/$defs/none"},
    {"$ref": "#/type/none", "type": "string"},
    {"$ref": 1},
    {"minItems": -1},
    {"minItems": "1"},
    {"minLength": True},
    {"format": []},
    {"format": {}},
    {"additionalProperties": "x"},
    {"$defs": {"a": 1}},
]

TOO_MUCH = [
    chain(400),
    nested(40),
    {"default": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
    {"title": "x" * LARGEST_BYTES},
]


@pytest.mark.parametrize("schema", TAKEN, ids=str)
def test_what_the_engine_obeys_is_taken_as_it_is(schema):
    assert checked("s", schema) == schema


@pytest.mark.parametrize(
    "schema", [*HANGS, *FAILS, *LEFT_OUT_WITHOUT_A_WORD, *NO_SCHEMA, *TOO_MUCH], ids=lambda s: str(s)[:60]
)
def test_all_else_is_refused(schema):
    refused = refusal(schema)

    assert refused.status_here == 400
    assert refused.code_here in ("bad_value", "unknown_field")
    assert refused.param.startswith("s")


def test_what_is_refused_inside_is_named_by_its_place():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "pattern": "x"}}}}

    assert refusal(schema).param == "s.properties.a.items.pattern"


def test_a_schema_goes_on_under_a_name_of_ours():
    asked = {"type": "json_schema", "json_schema": {"name": "theirs", "strict": False, "schema": {"type": "null"}}}

    assert response_format("response_format", asked) == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": {"type": "null"}},
    }


def test_other_members_beside_a_schema_are_refused():
    with pytest.raises(Refused, match="grammar"):
        response_format("f", {"type": "json_schema", "json_schema": {"schema": {}, "grammar": "x"}})


def test_only_the_kind_of_a_json_object_format_goes_on():
    assert response_format("f", {"type": "json_object", "schema": {"pattern": "("}}) == {"type": "json_object"}
