"""Values for property tests: JSON, records, answers, transcripts."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from foretold.contract.canonical import MAX_EXACT
from foretold.contract.query import Query
from foretold.contract.record import Record

CHARACTERS = st.characters(exclude_categories=["Cs"])
HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
_TEXTS = st.text(CHARACTERS, max_size=12)
_SPOKEN = st.text(st.one_of(CHARACTERS, st.sampled_from(" \n\t")), max_size=150)
_NUMBERS = st.one_of(
    st.integers(-MAX_EXACT, MAX_EXACT),
    st.floats(-float(MAX_EXACT), float(MAX_EXACT), allow_nan=False),
    st.floats(-1e-4, 1e-4, allow_nan=False),
)
_LEAVES = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS)


def json_values(names: st.SearchStrategy[str] = _TEXTS, *, max_leaves: int = 10) -> st.SearchStrategy[Any]:
    return st.recursive(
        _LEAVES,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
        max_leaves=max_leaves,
    )


def shuffled(value: Any, chance: random.Random) -> Any:
    """The value with the members of every object in another order."""
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    chance.shuffle(names)
    return {name: shuffled(value[name], chance) for name in names}


@st.composite
def changed_once(draw: st.DrawFn, value: Any) -> Any:
    """The value with one leaf changed, one item or member more, or one less."""
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.booleans()):
            return {n: v for n, v in value.items() if n != name}
        return {**value, name: draw(changed_once(value[name]))}
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        if draw(st.booleans()):
            return [*value, draw(_LEAVES)]
        return [*value[:at], draw(changed_once(value[at])), *value[at + 1 :]]
    if isinstance(value, str):
        return value + draw(CHARACTERS)
    if isinstance(value, bool):
        return draw(st.sampled_from([not value, int(value), str(value).lower(), None]))
    if isinstance(value, int | float):
        return draw(st.sampled_from([str(value), [value], value / 2 + 1 if value != 2 else 3]))
    return draw(st.sampled_from([False, 0, "", "null", [value]]))


def chat_bodies() -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of members that no rule takes out, folds or numbers."""
    values = json_values().filter(lambda value: value is not None)
    return st.dictionaries(_unknown_names(), values, min_size=1, max_size=5)


def queries() -> st.SearchStrategy[Query]:
    few = st.sampled_from(["", "a", "b", "ab", '","', "chat", "json"])
    headers = st.lists(st.tuples(few, few), max_size=2).map(tuple)
    return st.builds(Query, *[few] * 5, form=few, sample=st.integers(0, 3), query=few, headers=headers)


def transcripts() -> st.SearchStrategy[bytes]:
    parts = st.sampled_from(
        ["data: a", "data", "event: x", ": c", "\ufeff", "é", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n"]
    )
    return st.lists(parts, max_size=24).map(lambda texts: "".join(texts).encode())


def records() -> st.SearchStrategy[Record]:
    times = st.integers(0, MAX_EXACT)
    usage = st.dictionaries(_TEXTS, json_values(), max_size=3)
    return st.builds(
        Record,
        key=HEX,
        namespace=HEX,
        operation=_TEXTS,
        model=_TEXTS,
        revision=_TEXTS,
        kind=st.sampled_from(["answer", "negative", "pointer"]),
        made_ms=times,
        asked_ms=times,
        fresh_s=times,
        stale_while_revalidate_s=times,
        stale_if_error_s=times,
        status=st.integers(100, 599),
        content_type=_TEXTS,
        headers=st.lists(st.tuples(_TEXTS, _TEXTS), max_size=3).map(tuple),
        shape=st.sampled_from(["whole", "events", "vector"]),
        has=st.lists(st.sampled_from(["usage", "timing"]), unique=True).map(tuple),
        took_ms=times,
        tags=st.dictionaries(_TEXTS, _TEXTS, max_size=3),
        body=st.binary(max_size=200),
        engine=st.none() | _TEXTS,
        usage=st.none() | usage,
        rest=st.dictionaries(_unknown_names(), json_values(), max_size=2),
    )


def chats() -> st.SearchStrategy[dict[str, Any]]:
    """Whole chat completions: texts, calls, refusals, reasoning, logprobs, several choices, unknown members."""
    return _answers("chat.completion", _chat_choice)


def completions() -> st.SearchStrategy[dict[str, Any]]:
    return _answers("text_completion", _text_choice)


@st.composite
def _answers(draw: st.DrawFn, kind: str, choice_of: Any) -> dict[str, Any]:
    answer = {"id": draw(_TEXTS), "object": kind, "created": draw(st.integers(0, MAX_EXACT)), "model": draw(_TEXTS)}
    answer |= draw(_some(system_fingerprint=st.none() | _TEXTS, service_tier=_TEXTS))
    answer |= draw(_some(usage=st.dictionaries(_TEXTS, _NUMBERS, max_size=3)))
    indexes = sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=3)))
    return {**answer, **draw(_unknown()), "choices": [draw(choice_of(index)) for index in indexes]}


@st.composite
def _chat_choice(draw: st.DrawFn, index: int) -> dict[str, Any]:
    parts = st.lists(st.fixed_dictionaries({"type": _TEXTS, "text": _TEXTS}), max_size=2)
    message = {"role": draw(st.sampled_from(["assistant", "tool"])), "content": draw(st.none() | _SPOKEN | parts)}
    message |= draw(
        _some(
            refusal=st.none() | _SPOKEN,
            reasoning_content=_SPOKEN,
            reasoning=_SPOKEN,
            audio=st.fixed_dictionaries({"id": _TEXTS, "data": _TEXTS}),
            tool_calls=st.lists(_calls(), min_size=1, max_size=3),
            function_call=st.fixed_dictionaries({"name": _TEXTS, "arguments": _SPOKEN}),
        )
    )
    return {"index": index, "message": {**message, **draw(_unknown())}, **draw(_ends())}


@st.composite
def _text_choice(draw: st.DrawFn, index: int) -> dict[str, Any]:
    return {"index": index, "text": draw(_SPOKEN), **draw(_ends())}


@st.composite
def _ends(draw: st.DrawFn) -> dict[str, Any]:
    """What a choice says at its end."""
    tokens = st.lists(st.fixed_dictionaries({"token": _TEXTS, "logprob": _NUMBERS}), max_size=3)
    logprobs = st.none() | st.fixed_dictionaries({"content": tokens, "refusal": st.none() | tokens})
    finish = draw(st.none() | st.sampled_from(["stop", "length", "tool_calls"]))
    return {"finish_reason": finish, **draw(_some(logprobs=logprobs)), **draw(_unknown())}


@st.composite
def _calls(draw: st.DrawFn) -> dict[str, Any]:
    function = {"name": draw(_TEXTS), "arguments": draw(_SPOKEN), **draw(_unknown())}
    return {"id": draw(_TEXTS), "type": "function", "function": function, **draw(_unknown())}


def _some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


def _unknown() -> st.SearchStrategy[dict[str, Any]]:
    """Members nobody knows."""
    return st.dictionaries(_unknown_names(), json_values(_unknown_names(), max_leaves=3), max_size=2)


def _unknown_names() -> st.SearchStrategy[str]:
    return _TEXTS.map(lambda text: f"x_{text}")
