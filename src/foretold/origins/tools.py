"""Tools and their calls, within bounds: their texts and schemas become a grammar that native code compiles."""

from __future__ import annotations

import re
from typing import Any

from foretold.errors import Refused
from foretold.origins import schema
from foretold.origins.refusing import bad_value, unknown_field

MOST_TOOLS = 64
MOST_CALLS = 64
LONGEST_DESCRIPTION = 4096
LONGEST_ID = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def checked(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_TOOLS:
        raise bad_value(name, value, f"a list of 1 to {MOST_TOOLS} tools")
    told = [_tool(f"{name}[{i}]", tool) for i, tool in enumerate(value)]
    names = [tool["function"]["name"] for tool in told]
    for i, one in enumerate(names):
        if one in names[:i]:
            raise bad_value(f"{name}[{i}].function.name", one, "another name for each tool")
    return told


def choice(name: str, value: Any) -> Any:
    if value in ("auto", "none", "required"):
        return value
    if isinstance(value, dict) and value.keys() == {"type", "function"} and value["type"] == "function":
        function = value["function"]
        if isinstance(function, dict) and function.keys() == {"name"} and _is_name(function["name"]):
            return value
    raise bad_value(name, value, '"auto", "none", "required" or one function by name')


def settle(told: dict[str, Any]) -> None:
    """Makes of what was asked of tools what the engine obeys.  Raises Refused for a call of what isn't there.

    It takes no notice of a function that is named, so that one is the only tool it hears of.
    """
    wanted = told.get("tool_choice")
    if "tools" not in told:
        if wanted not in (None, "auto", "none"):
            raise Refused(
                "`tool_choice` asks for a call, and there are no `tools`", param="tools", code="missing_field"
            )
        told.pop("tool_choice", None)
        told.pop("parallel_tool_calls", None)
    elif isinstance(wanted, dict):
        name = wanted["function"]["name"]
        named = [tool for tool in told["tools"] if tool["function"]["name"] == name]
        if not named:
            raise bad_value("tool_choice", wanted, "one of `tools` by its name")
        told["tools"], told["tool_choice"] = named, "required"


def calls(name: str, value: Any) -> list[dict[str, Any]]:
    """The calls an assistant made earlier in the talk."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_CALLS:
        raise bad_value(name, value, f"a list of 1 to {MOST_CALLS} calls")
    return [_call(f"{name}[{i}]", call) for i, call in enumerate(value)]


def _tool(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.get("type") != "function" or not isinstance(value.get("function"), dict):
        raise bad_value(name, value, 'a tool such as {"type": "function", "function": {…}}')
    function = value["function"]
    for member in function:
        if member not in ("name", "description", "parameters", "strict"):
            raise unknown_field(f"{name}.function.{member}", known=("name", "description", "parameters", "strict"))
    if not _is_name(function.get("name")):
        raise bad_value(f"{name}.function.name", function.get("name"), "a name of letters, digits, _ and -")
    told: dict[str, Any] = {"name": function["name"]}
    if (description := function.get("description")) is not None:
        if not isinstance(description, str) or len(description) > LONGEST_DESCRIPTION:
            raise bad_value(
                f"{name}.function.description", description, f"a text of at most {LONGEST_DESCRIPTION} characters"
            )
        told["description"] = description
    if (parameters := function.get("parameters")) is not None:
        told["parameters"] = schema.checked(f"{name}.function.parameters", parameters)
    return {"type": "function", "function": told}


def _call(name: str, value: Any) -> dict[str, Any]:
    function = value.get("function") if isinstance(value, dict) else None
    identity = value.get("id") if isinstance(value, dict) else None
    if (
        not isinstance(function, dict)
        or not _is_name(function.get("name"))
        or not isinstance(function.get("arguments"), str)
        or not isinstance(identity, str)
        or not 1 <= len(identity) <= LONGEST_ID
    ):
        raise bad_value(name, value, "a function call with `id`, and `function` with `name` and `arguments`")
    kept = {"name": function["name"], "arguments": function["arguments"]}
    return {"id": identity, "type": "function", "function": kept}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
