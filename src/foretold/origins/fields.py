"""What a local engine may be asked: a closed list of members, each with its range.

The engine runs native code on whatever it is sent and takes far more than we offer, some of it harmful, so here an
unknown member is refused where an upstream would get it passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from foretold.errors import Malformed, Refused
from foretold.models.manifest import Manifest
from foretold.origins import grammar, messages, schema, tools
from foretold.origins.refusing import bad_value, count, number, unknown_field

# Known to OpenAI's clients and without meaning for the answer of a local model.
INERT = frozenset(
    {
        "model",
        "stream",
        "stream_options",
        "user",
        "metadata",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "encoding_format",
    }
)
MOST_TOKENS = 1_000_000
MOST_STOPS = 16
LONGEST_STOP = 256
MOST_BIASES = 300
MOST_LOGPROBS = 20
# No text of more characters fits a slot: SmolLM2's longest tokens are runs of 64 spaces.
CHARACTERS_PER_TOKEN = 64

Rule = Callable[[str, Any], Any]


def engine_body(operation: str, body: bytes, manifest: Manifest) -> dict[str, Any]:
    """What the engine is asked for a chat or text completion: always streamed, with progress and usage.

    Raises Refused with the member's name for one that is unknown or out of range, Malformed for what is no object.
    """
    asked = object_of(body)
    rules = _CHAT if operation == "chat" else _COMPLETION
    told: dict[str, Any] = {}
    for name, value in asked.items():
        if value is None or name in INERT:
            continue
        rule = rules.get(name)
        if rule is None:
            raise unknown_field(name, known=rules)
        settled = rule(name, value)
        if settled is not None:
            told[name] = settled
    _check_together(operation, told, manifest)
    tools.settle(told)
    limit = told.pop("max_completion_tokens", told.pop("max_tokens", manifest.max_tokens))
    if "repetition_penalty" in told:
        told["repeat_penalty"] = told.pop("repetition_penalty")
    for name in _CHECKED_ONLY:
        told.pop(name, None)
    return told | {
        "max_tokens": limit,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "cache_prompt": False,
    }


def wants_json(told: Mapping[str, Any]) -> bool:
    """Whether the answer must be JSON text."""
    return "response_format" in told


def must_call(told: Mapping[str, Any]) -> bool:
    """Whether the answer must be a call of a tool."""
    return told.get("tool_choice") == "required"


def calls_once(told: Mapping[str, Any]) -> bool:
    """Whether the answer may hold one call of a tool at most."""
    return told.get("parallel_tool_calls") is False


def object_of(body: bytes) -> dict[str, Any]:
    """Raises Malformed."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise Malformed(f"the body is not JSON: {e.msg} at line {e.lineno} column {e.colno}") from None
    if not isinstance(asked, dict):
        raise Malformed("the body must be a JSON object")
    return asked


def _check_together(operation: str, told: dict[str, Any], manifest: Manifest) -> None:
    """What one member's rule alone cannot see."""
    question = "messages" if operation == "chat" else "prompt"
    if question not in told:
        raise Refused(f"`{question}` is missing", param=question, code="missing_field")
    if "repetition_penalty" in told and "repeat_penalty" in told:
        raise Refused("give `repeat_penalty` or `repetition_penalty`", param="repetition_penalty", code="bad_value")
    for other in ("response_format", "tools"):
        if "grammar" in told and other in told:
            raise Refused(f"give `grammar` or `{other}`: an answer has one form", param="grammar", code="bad_value")
    if "tools" in told:
        # The engine refuses the one, and with the other holds the model to a form in which it can never call.
        may_call = told.get("tool_choice") != "none"
        for other in ("logprobs", "response_format") if may_call else ("logprobs",):
            if told.get(other):
                raise Refused(
                    f"give `tools` or `{other}`: a local model cannot do both in one answer",
                    param=other,
                    code="bad_value",
                )
    if "top_logprobs" in told and not told.get("logprobs"):
        raise bad_value("top_logprobs", told["top_logprobs"], "allowed only with `logprobs` true")
    if "tools" not in manifest.capabilities:
        for name in ("tools", "tool_choice"):
            if name in told:
                raise Refused(
                    f"model {manifest.name!r} knows no tools: leave out `{name}`", param=name, code="no_tools"
                )
        if (place := messages.of_tools(told.get("messages", ()))) is not None:
            raise Refused(
                f"model {manifest.name!r} knows no tools, and would not see `{place}`: leave it out",
                param=place,
                code="no_tools",
            )
    characters = messages.characters(told["messages"]) if operation == "chat" else len(told["prompt"])
    if characters > manifest.context * CHARACTERS_PER_TOKEN:
        raise Refused(
            f"{characters:,} characters cannot fit the {manifest.context:,} tokens that model {manifest.name!r} takes:"
            " send less text",
            param=question,
            code="context_length_exceeded",
        )


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise bad_value(name, value, "true or false")
    return value


def _only(constant: Any) -> Rule:
    """For a member that we know and support with one value."""

    def rule(name: str, value: Any) -> Any:
        if type(value) is not type(constant) or value != constant:
            raise bad_value(name, value, f"only {orjson.dumps(constant).decode()} for a local model")
        return value

    return rule


def _functions(name: str, value: Any) -> Any:
    raise Refused(f"`{name}` is the old form of tools, which no local model takes", param=name, code="no_tools")


def _count(least: int, most: int) -> Rule:
    return lambda name, value: count(name, value, least, most)


def _number(least: float, most: float) -> Rule:
    return lambda name, value: number(name, value, least, most)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise bad_value(name, value, "one text that is not empty")
    return value


def _stops(name: str, value: Any) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    wanted = f"a text, or at most {MOST_STOPS} texts, of 1 to {LONGEST_STOP} characters"
    if not isinstance(stops, list) or len(stops) > MOST_STOPS:
        raise bad_value(name, value, wanted)
    for stop in stops:
        if not isinstance(stop, str) or not 1 <= len(stop) <= LONGEST_STOP:
            raise bad_value(name, stop, wanted)
    return stops


def _biases(name: str, value: Any) -> dict[str, float]:
    wanted = f"an object of at most {MOST_BIASES} token numbers with biases from -100 to 100"
    if not isinstance(value, dict) or len(value) > MOST_BIASES:
        raise bad_value(name, value, wanted)
    for token, bias in value.items():
        # Longer or other names are texts to the engine, which it would cut into tokens.
        if not (token.isascii() and token.isdigit() and len(token) <= 7):
            raise bad_value(name, token, wanted)
        number(name, bias, -100, 100)
    return value


_SAMPLING: dict[str, Rule] = {
    "max_tokens": _count(1, MOST_TOKENS),
    "temperature": _number(0, 5),
    "top_p": _number(0, 1),
    "top_k": _count(-1, 100_000),
    "min_p": _number(0, 1),
    "seed": _count(-1, 2**32 - 1),
    "stop": _stops,
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "repeat_penalty": _number(0.5, 2),
    "repetition_penalty": _number(0.5, 2),  # its name elsewhere
    "logit_bias": _biases,
    "n": _only(1),
    "grammar": grammar.checked,
}
_CHAT: dict[str, Rule] = {
    "messages": messages.checked,
    "max_completion_tokens": _count(1, MOST_TOKENS),
    **_SAMPLING,
    "logprobs": _flag,
    "top_logprobs": _count(0, MOST_LOGPROBS),
    "response_format": schema.response_format,
    "tools": tools.checked,
    "tool_choice": tools.choice,
    "parallel_tool_calls": _flag,
    "functions": _functions,
    "function_call": _functions,
    "store": _only(False),
}
_COMPLETION: dict[str, Rule] = {
    "prompt": _text,
    **_SAMPLING,
    "logprobs": _count(0, MOST_LOGPROBS),
    "best_of": _only(1),
    "echo": _only(False),
    "suffix": _only(""),
    "parallel_tool_calls": _flag,
}
_CHECKED_ONLY = ("n", "store", "best_of", "echo", "suffix")
