"""The input of a query in one form: what of a body counts, and its digest (rules K4 to K7, K10, K12)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from foretold.contract.canonical import canonical, in_utf16_units
from foretold.errors import Malformed

MOST_INPUTS = 2048
OPENAI_SHAPED = frozenset({"chat", "completion", "embedding", "responses", "messages", "moderation", "image"})

_TAKEN_OUT = frozenset(
    [
        "model",
        "stream",
        "stream_options",
        "user",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "encoding_format",
    ]
)
_INPUTS = "a text, a list of texts, a token array or a list of them, and not empty"
_NEVER_IGNORED = frozenset({"messages", "input", "prompt", "model", "tools"})
_SERVER_STATE = frozenset({"store", "background", "previous_response_id", "conversation", "container"})
_REMOTE_TOOLS = frozenset({"web_search_options", "mcp_servers"})


def json_input(operation: str, value: Any, *, ignored: Iterable[str] = ()) -> str:
    """Hex SHA-256 of what counts of a settled JSON body."""
    return digest(canonical(keyed(operation, value, ignored=ignored)))


def keyed(operation: str, value: Any, *, ignored: Iterable[str] = ()) -> Any:
    """What counts of a settled JSON body: all of it, but for OpenAI-shaped operations rules K5 to K7.

    `ignored` are the top-level names a caller asked to leave out (rule C3); those that carry the question never are.
    """
    if operation not in OPENAI_SHAPED or not isinstance(value, dict):
        return value
    left_out = _TAKEN_OUT.union(ignored_names(ignored)) if ignored else _TAKEN_OUT
    members = {name: member for name, member in value.items() if name not in left_out and member is not None}
    if isinstance(members.get("cache"), dict):
        del members["cache"]  # a control
    if "n" in members and type(members["n"]) is int and members["n"] == 1:
        del members["n"]  # K6; `1 == True` in Python, so the kind is compared too
    if members.get("logprobs") is False:
        del members["logprobs"]
    if isinstance(members.get("stop"), str):
        members["stop"] = [members["stop"]]
    return _with_call_ids_numbered(operation, members)


def ignored_names(names: Iterable[str]) -> list[str]:
    """The names of `Helicone-Cache-Ignore-Keys` that may be left out, sorted."""
    return sorted(set(names) - _NEVER_IGNORED)


def bytes_input(body: bytes) -> str:
    """Hex SHA-256 of the bytes as they are."""
    return digest(body)


def multipart_input(parts: Iterable[tuple[str, str, bytes]]) -> str:
    """Hex SHA-256 of parts (name, content type, content) in order; file names and boundary don't count."""
    return digest(canonical([[name, kind, digest(content), len(content)] for name, kind, content in parts]))


def embedding_inputs(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One body per input of an embeddings request: each text or token array with all other members.

    Raises Malformed if `input` is none of text, token array, list of texts, list of token arrays, or not one to
    `MOST_INPUTS` of them, each not empty.
    """
    given = value.get("input")
    if isinstance(given, str) or (isinstance(given, list) and given and all(_is_token(i) for i in given)):
        return [{**value, "input": _not_empty(given, "input")}]
    if not isinstance(given, list) or not given:
        raise Malformed(f"`input` must be {_INPUTS}", param="input")
    if len(given) > MOST_INPUTS:
        raise Malformed(f"`input` has {len(given)} inputs, {MOST_INPUTS} are the most: ask in parts", param="input")
    for place, item in enumerate(given):
        if not isinstance(item, str) and not (isinstance(item, list) and all(_is_token(i) for i in item)):
            raise Malformed(f"`input[{place}]` is neither a text nor an array of tokens", param=f"input[{place}]")
        _not_empty(item, f"input[{place}]")
    return [{**value, "input": item} for item in given]


def tensor_input(
    inputs: Iterable[Mapping[str, Any]], outputs: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]
) -> str:
    """Hex SHA-256 of a tensor request.

    Each input has name, datatype, shape, content (little-endian bytes) and perhaps parameters; each requested output
    a name and perhaps parameters.  Members called `binary_data*` say how bytes travel and don't count.
    """
    named = [
        [t["name"], t["datatype"], list(t["shape"]), digest(t["content"]), _lasting(t.get("parameters"))]
        for t in inputs
    ]
    wanted = [[o["name"], _lasting(o.get("parameters"))] for o in outputs]
    for row in (named, wanted):
        row.sort(key=lambda tensor: in_utf16_units(tensor[0]))
    return digest(canonical([named, wanted, _lasting(parameters)]))


def must_pass(operation: str, value: Any) -> str | None:
    """Why a query of this body may not be cached at all (rule K12): `server-state` or `remote-tool`; None if it may."""
    if operation not in OPENAI_SHAPED or not isinstance(value, dict):
        return None
    if not _SERVER_STATE.isdisjoint(value) and any(_is_asked(value.get(name)) for name in _SERVER_STATE):
        return "server-state"
    if operation == "responses" and (isinstance(value.get("prompt"), dict) or _has_item_reference(value.get("input"))):
        return "server-state"
    if not _REMOTE_TOOLS.isdisjoint(value) and any(value.get(name) is not None for name in _REMOTE_TOOLS):
        return "remote-tool"
    tools = value.get("tools")
    if isinstance(tools, list) and any(_is_remote(tool) for tool in tools):
        return "remote-tool"
    return None


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _with_call_ids_numbered(operation: str, members: dict[str, Any]) -> Any:
    """K7: ids that only tie a call to its result become #0, #1 … in order of first appearance."""
    if operation == "chat":
        messages = _items(members, "messages")
        if any(isinstance(m, dict) and ("tool_calls" in m or "tool_call_id" in m) for m in messages):
            return _each(members, "messages", _Numbers().of_chat_message)
        return members
    if operation == "responses":
        numbers = _Numbers()
        return _each(members, "input", lambda item: numbers.numbered(item, "call_id", "id"))
    if operation == "messages":
        numbers = _Numbers()
        return _each(members, "messages", lambda message: _each(message, "content", numbers.of_content_block))
    return members


class _Numbers:
    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def numbered(self, holder: Any, *names: str) -> Any:
        """The holder with the ids under these names numbered."""
        if not isinstance(holder, dict) or not any(isinstance(holder.get(n), str) for n in names):
            return holder
        own = {n: self._number(holder[n]) for n in names if isinstance(holder.get(n), str)}
        return {**holder, **own}

    def of_chat_message(self, message: Any) -> Any:
        return _each(self.numbered(message, "tool_call_id"), "tool_calls", lambda call: self.numbered(call, "id"))

    def of_content_block(self, block: Any) -> Any:
        own = ("id",) if isinstance(block, dict) and block.get("type") == "tool_use" else ()
        return self.numbered(block, *own, "tool_use_id")

    def _number(self, given: str) -> str:
        return self._numbers.setdefault(given, f"#{len(self._numbers)}")


def _each(holder: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """The holder with every item of its list under this name changed."""
    if not isinstance(holder, dict) or not isinstance(holder.get(name), list):
        return holder
    return {**holder, name: [change(item) for item in holder[name]]}


def _items(holder: dict[str, Any], name: str) -> list[Any]:
    items = holder.get(name)
    return items if isinstance(items, list) else []


def _is_token(item: Any) -> bool:
    return type(item) is int


def _not_empty(item: Any, name: str) -> Any:
    if not item:
        raise Malformed(f"`{name}` is empty: leave it out, or say what to embed", param=name)
    return item


def _is_asked(member: Any) -> bool:
    """Anything but null and false; `0 == False` in Python, so by identity."""
    return member is not None and member is not False


def _has_item_reference(items: Any) -> bool:
    return isinstance(items, list) and any(isinstance(item, dict) and _is_item_reference(item) for item in items)


def _is_item_reference(item: Mapping[str, Any]) -> bool:
    """The API lets a reference leave out its type; what has neither type nor role can only be one."""
    return item.get("type") == "item_reference" or (item.get("type") is None and "role" not in item)


def _is_remote(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type", "custom") not in ("function", "custom")


def _lasting(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (parameters or {}).items() if not name.startswith("binary_data")}
