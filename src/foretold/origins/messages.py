"""The messages of a chat as a local model takes them: text only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foretold.errors import Refused
from foretold.origins import tools
from foretold.origins.refusing import bad_value, unknown_field

MOST_MESSAGES = 1024
MOST_PARTS = 256
LONGEST_NAME = 64
# A template that has never heard of developers would refuse, or print the word.
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})


def checked(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_MESSAGES:
        raise bad_value(name, value, f"a list of 1 to {MOST_MESSAGES} messages")
    return [_message(f"{name}[{i}]", message) for i, message in enumerate(value)]


def characters(messages: list[dict[str, Any]]) -> int:
    """How much text checked messages hold."""
    return sum(
        len(message["content"]) + sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))
        for message in messages
    )


def of_tools(messages: Iterable[dict[str, Any]]) -> str | None:
    """Where checked messages first tell of tools that were called."""
    for at, message in enumerate(messages):
        if "tool_calls" in message:
            return f"messages[{at}].tool_calls"
        if message["role"] == "tool":
            return f"messages[{at}]"
    return None


def _message(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_value(name, value, "an object with `role` and `content`")
    members = {member: v for member, v in value.items() if v is not None}
    for member in members:
        if member not in _KNOWN:
            raise unknown_field(f"{name}.{member}", known=_KNOWN)
    sent = members.get("role")
    role = _ROLES.get(sent) if isinstance(sent, str) else None
    if role is None:
        raise bad_value(f"{name}.role", sent, f"one of {', '.join(_ROLES)}")
    calls = members.get("tool_calls")
    if "content" not in members and (role != "assistant" or calls is None):
        raise Refused(f"`{name}.content` is missing", param=f"{name}.content", code="missing_field")
    told: dict[str, Any] = {"role": role, "content": _content(f"{name}.content", members.get("content", ""))}
    for member in ("name", "tool_call_id"):
        if member in members:
            told[member] = _short(f"{name}.{member}", members[member])
    if calls is not None:
        told["tool_calls"] = tools.calls(f"{name}.tool_calls", calls)
    return told


def _content(name: str, value: Any) -> str:
    """One text; parts are joined, as templates that know no parts do."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_PARTS:
        raise bad_value(name, value, f"a text, or a list of 1 to {MOST_PARTS} text parts")
    return "\n".join(_part(f"{name}[{i}]", part) for i, part in enumerate(value))


def _part(name: str, value: Any) -> str:
    if not isinstance(value, dict):
        raise bad_value(name, value, 'a part such as {"type": "text", "text": "…"}')
    kind = value.get("type")
    if kind != "text":
        shown = f"{kind[:32]!r}" if isinstance(kind, str) else "no kind that is known"
        raise Refused(f"`{name}` is {shown}, and this model reads only text", param=name, code="bad_value")
    for member in value.keys() - {"type", "text"}:
        raise unknown_field(f"{name}.{member}", known=("type", "text"))
    if not isinstance(value.get("text"), str):
        raise bad_value(f"{name}.text", value.get("text"), "a text")
    text: str = value["text"]
    return text


def _short(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise bad_value(name, value, f"a text of 1 to {LONGEST_NAME} characters")
    return value
