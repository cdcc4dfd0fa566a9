"""From a transcript to the whole answer (rule P3)."""

import json
from typing import Any

from cases.chats import HEAD, USAGE, call, chunk, whole
from cases.writing import Vector, fails, gives, utf8


def _sse(*told: Any) -> str:
    """A transcript; texts stand as they are, `[DONE]` comes last."""
    lines = [t if isinstance(t, str) else json.dumps(t, ensure_ascii=False, separators=(",", ":")) for t in told]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])


def _nested(brackets: int) -> str:
    return '{"a":' + "[" * (brackets - 1) + "]" * (brackets - 1) + "}"


def _folds(name: str, transcript: str, out: Any, operation: str = "chat") -> Vector:
    return gives(name, "P3", "whole_of", {"operation": operation, "transcript": utf8(transcript)}, out)


_FOLDED = [
    _folds(
        "pieces of content are joined",
        _sse(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Lo"}),
            chunk({"content": "ire"}),
            chunk({}, "stop"),
        ),
        whole({"content": "Loire"}),
    ),
    _folds(
        "an end told twice is told once",
        _sse(chunk({"role": "assistant", "content": "Lo"}, "stop"), chunk({}, "stop")),
        whole({"content": "Lo"}, "stop"),
    ),
    _folds(
        "a text beside the delta is replaced, not joined",
        _sse(
            {**HEAD, "choices": [{"index": 0, "delta": {"content": "Lo"}, "native": "a", "finish_reason": None}]},
            {**HEAD, "choices": [{"index": 0, "delta": {}, "native": "b", "finish_reason": "stop"}]},
        ),
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Lo"},
                    "native": "b",
                    "finish_reason": "stop",
                }
            ],
        },
    ),
    _folds(
        "an end of a completion told twice is told once",
        _sse(
            *(
                {**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
                for text in ("Lo", "ire")
            )
        ),
        {**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": "Loire", "finish_reason": "stop"}]},
        "completion",
    ),
    _folds(
        "an end is kept as it was told",
        _sse(chunk({"role": "assistant", "content": "Lo"}), chunk({}, "length")),
        whole({"content": "Lo"}, "length"),
    ),
    _folds(
        "a role other than assistant is kept",
        _sse(chunk({"role": "narrator"}), chunk({"role": "assistant"}), chunk({}, "stop")),
        whole({"role": "narrator"}),
    ),
    _folds(
        "an answer that tells no role is the assistant's",
        _sse(chunk({"content": "x"}), chunk({"role": ""}, "stop")),
        whole({"content": "x"}),
    ),
    _folds(
        "a role told empty first is told by the next",
        _sse(chunk({"role": "", "content": "x"}), chunk({"role": "tool"}, "stop")),
        whole({"role": "tool", "content": "x"}),
    ),
    _folds(
        "an answer that speaks no content has null", _sse(chunk({"role": "assistant"}), chunk({}, "stop")), whole({})
    ),
    _folds(
        "a call's arguments are joined to the same text",
        _sse(
            chunk({"role": "assistant", "content": None}),
            chunk(call(0, id="call_1", type="function", function={"name": "get", "arguments": ""})),
            chunk(call(0, function={"arguments": '{"a":'})),
            chunk(call(0, function={"arguments": "1}"})),
            chunk({}, "tool_calls"),
        ),
        whole(
            {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get", "arguments": '{"a":1}'}}]},
            "tool_calls",
        ),
    ),
    _folds(
        "two calls whose pieces are mixed are kept apart by their index",
        _sse(
            chunk(call(1, id="b", type="function", function={"name": "y", "arguments": "1"})),
            chunk(call(0, id="a", type="function", function={"name": "x", "arguments": "2"})),
            chunk(call(1, function={"arguments": "3"})),
            chunk({}, "tool_calls"),
        ),
        whole(
            {
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "x", "arguments": "2"}},
                    {"id": "b", "type": "function", "function": {"name": "y", "arguments": "13"}},
                ]
            },
            "tool_calls",
        ),
    ),
    _folds(
        "pieces of one call in one event are one call",
        _sse(
            chunk({"tool_calls": [{"index": 0, "id": "a"}, {"index": 1, "id": "b"}, {"index": 0, "n": 5}]}, "stop"),
        ),
        whole({"tool_calls": [{"id": "a", "n": 5}, {"id": "b"}]}),
    ),
    _folds(
        "an id, a type and a name told twice are told once",
        _sse(
            chunk(call(0, id="a", type="function", function={"name": "x", "arguments": "1"})),
            chunk(call(0, id="a", type="function", function={"name": "x", "arguments": "2"})),
            chunk({}, "tool_calls"),
        ),
        whole(
            {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": "12"}}]},
            "tool_calls",
        ),
    ),
    _folds(
        "reasoning is kept beside content",
        _sse(
            chunk({"reasoning_content": "hm"}),
            chunk({"reasoning_content": "m"}),
            chunk({"content": "x"}),
            chunk({}, "stop"),
        ),
        whole({"reasoning_content": "hmm", "content": "x"}),
    ),
    _folds(
        "a refusal is folded",
        _sse(chunk({"role": "assistant", "refusal": "I "}), chunk({"refusal": "can't"}), chunk({}, "stop")),
        whole({"refusal": "I can't"}),
    ),
    _folds(
        "members nobody knows survive in a delta",
        _sse(
            chunk({"content": "x", "citations": [{"url": "a"}]}),
            chunk({"citations": [{"url": "b"}]}),
            chunk({}, "stop"),
        ),
        whole({"content": "x", "citations": [{"url": "a"}, {"url": "b"}]}),
    ),
    _folds(
        "members nobody knows survive beside choices",
        _sse(chunk({"content": "x"}, provider="p"), chunk({}, "stop", timings={"ms": 5})),
        whole({"content": "x"}, provider="p", timings={"ms": 5}),
    ),
    _folds(
        "logprobs grow",
        _sse(
            {
                **HEAD,
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "a"},
                        "logprobs": {"content": [{"token": "a"}]},
                        "finish_reason": None,
                    }
                ],
            },
            {
                **HEAD,
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "b"},
                        "logprobs": {"content": [{"token": "b"}]},
                        "finish_reason": "stop",
                    }
                ],
            },
        ),
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "ab"},
                    "logprobs": {"content": [{"token": "a"}, {"token": "b"}]},
                    "finish_reason": "stop",
                }
            ],
        },
    ),
    _folds(
        "usage is kept, and its null on other events is not",
        _sse(
            chunk({"content": "x"}, usage=None),
            chunk({}, "stop", usage=None),
            {**HEAD, "choices": [], "usage": USAGE},
        ),
        whole({"content": "x"}, usage=USAGE),
    ),
    _folds(
        "choices come in the order of their index",
        _sse(chunk({"content": "b"}, "stop", index=1), chunk({"content": "a"}, "stop", index=0)),
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"},
                {"index": 1, "message": {"role": "assistant", "content": "b"}, "finish_reason": "stop"},
            ],
        },
    ),
    _folds(
        "id, created and fingerprint are those first told",
        _sse(chunk({"content": "x"}, system_fingerprint=None), chunk({}, "stop", id="other", system_fingerprint="fp")),
        whole({"content": "x"}, system_fingerprint="fp"),
    ),
    _folds(
        "what every event tells is taken from the first that tells it",
        _sse(
            chunk({"content": "x"}, service_tier=None),
            chunk({}, service_tier="flex"),
            chunk({}, "stop", service_tier="auto", created=5, model="other"),
        ),
        whole({"content": "x"}, service_tier="flex"),
    ),
    _folds(
        "a member told again replaces the first, but for null",
        _sse(chunk({"content": "x"}, a=1, b={"c": 1}, d=None), chunk({}, "stop", a=2, b=None, d=None)),
        whole({"content": "x"}, a=2, b={"c": 1}, d=None),
    ),
    _folds(
        "usage that is never told is absent", _sse(chunk({"content": "x"}, "stop", usage=None)), whole({"content": "x"})
    ),
    _folds(
        "a part told as another kind replaces the first",
        _sse(
            chunk({"content": "x", "a": "1", "b": [1], "c": {"d": 1}, "e": 1}),
            chunk({"a": 2, "b": "2", "c": [2], "e": True}, "stop"),
        ),
        whole({"content": "x", "a": 2, "b": "2", "c": [2], "e": True}),
    ),
    _folds(
        "a part told as null after a value stays",
        _sse(chunk({"content": "x", "a": [1]}), chunk({"content": None, "a": None}, "stop")),
        whole({"content": "x", "a": [1]}),
    ),
    _folds(
        "objects inside a delta grow together",
        _sse(chunk({"audio": {"id": "a", "data": "AA"}}), chunk({"audio": {"data": "BB", "n": 1}}, "stop")),
        whole({"audio": {"id": "a", "data": "AABB", "n": 1}}),
    ),
    _folds(
        "a name told in pieces is joined",
        _sse(
            chunk(call(0, id="a", function={"name": "get_", "arguments": ""})),
            chunk(call(0, function={"name": "weather", "arguments": "{}"}), "tool_calls"),
        ),
        whole({"tool_calls": [{"id": "a", "function": {"name": "get_weather", "arguments": "{}"}}]}, "tool_calls"),
    ),
    _folds(
        "a function call told in pieces is joined",
        _sse(
            chunk({"function_call": {"name": "get", "arguments": '{"a"'}}),
            chunk({"function_call": {"arguments": ":1}"}}, "function_call"),
        ),
        whole({"function_call": {"name": "get", "arguments": '{"a":1}'}}, "function_call"),
    ),
    _folds(
        "calls without an index are calls of their own",
        _sse(chunk({"tool_calls": [{"id": "a"}]}), chunk({"tool_calls": [{"id": "b"}]}, "tool_calls")),
        whole({"tool_calls": [{"id": "a"}, {"id": "b"}]}, "tool_calls"),
    ),
    _folds(
        "calls whose index is no whole number are calls of their own, at the front",
        _sse(
            chunk({"tool_calls": [{"index": 1, "id": "a"}, {"index": None, "id": "b"}]}),
            chunk({"tool_calls": [{"index": "1", "id": "c"}, {"index": 1, "n": 5}]}, "tool_calls"),
        ),
        whole({"tool_calls": [{"id": "b"}, {"id": "c"}, {"id": "a", "n": 5}]}, "tool_calls"),
    ),
    _folds(
        "items whose index is 1.0, true or null are one with no other",
        _sse(
            chunk({"a": [{"index": 1}, {"index": 1.0}, {"index": True}, {"index": None}]}),
            chunk({"a": [{"index": 1, "n": 5}, {"index": 1.0, "n": 5}, {"index": None}]}, "stop"),
        ),
        whole(
            {
                "a": [
                    {"index": 1, "n": 5},
                    {"index": 1.0},
                    {"index": True},
                    {"index": None},
                    {"index": 1.0, "n": 5},
                    {"index": None},
                ]
            }
        ),
    ),
    _folds(
        "a message told beside the delta grows with it",
        _sse({**HEAD, "choices": [{"delta": {"content": "x"}, "message": {"n": 5}, "finish_reason": "stop"}]}),
        whole({"content": "x", "n": 5}),
    ),
    _folds(
        "a choice without an index is the first",
        _sse({**HEAD, "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}),
        whole({"content": "x"}),
    ),
    _folds(
        "an error told in a stream is not lost",
        _sse(chunk({"content": "x"}), {"error": {"message": "overloaded"}}),
        {**whole({"content": "x"}, None), "error": {"message": "overloaded"}},
    ),
    _folds(
        "comments and named events without data are no part of an answer",
        ": ping\n\nevent: x\n\n" + _sse(chunk({"content": "x"}, "stop")),
        whole({"content": "x"}),
    ),
    _folds(
        "a text completion's pieces are joined",
        _sse(
            *(
                {**HEAD, "choices": [{"index": 0, "text": text, "finish_reason": end}]}
                for text, end in (("Lo", None), ("ire", None), ("", "stop"))
            )
        ),
        {**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": "Loire", "finish_reason": "stop"}]},
        "completion",
    ),
    _folds(
        "an event of 128 brackets open at once is one",
        _sse(chunk({"content": "x"}, "stop"), _nested(128)),
        whole({"content": "x"}, **json.loads(_nested(128))),
    ),
    *(
        fails(
            f"{what} is no answer",
            "P3",
            "whole_of",
            {"operation": "chat", "transcript": utf8(_sse(told))},
            "not_an_answer",
        )
        for what, told in [
            ("an event that is no JSON", "oops"),
            ("an event that is a list", []),
            ("an event whose choices are an object", {"choices": {}}),
            ("an event whose choice is a text", {"choices": ["x"]}),
            ("an event whose delta is a text", {"choices": [{"delta": "x"}]}),
            ("an event whose delta is null", {"choices": [{"delta": None}]}),
            ("an event whose index is a text", {"choices": [{"index": "0", "delta": {}}]}),
            ("an event whose index is true", {"choices": [{"index": True, "delta": {}}]}),
            ("an event whose index is null", {"choices": [{"index": None, "delta": {}}]}),
            ("an event whose index is 1.0", {"choices": [{"index": 1.0, "delta": {}}]}),
            ("an event whose index is -0", '{"choices":[{"index":-0,"delta":{}}]}'),
            ("an event whose index has 16 digits", '{"choices":[{"index":1000000000000000,"delta":{}}]}'),
            ("an event whose message is a text", {"choices": [{"message": "x"}]}),
            ("an event of more than its JSON", "{} {}"),
            ("an event with a lone surrogate", r'{"a":"\ud83d"}'),
            ("an event with a lone surrogate in a name", r'{"\udc00":1}'),
            ("an event with a number that overflows", '{"a":1e400}'),
            ("an event with a whole number that overflows", '{"a":1' + "0" * 400 + "}"),
            ("an event with NaN", '{"a":NaN}'),
            ("an event with a byte order mark in its data", "\ufeff{}"),
            ("an event of 129 brackets open at once", _nested(129)),
        ]
    ),
]


FILES = {"folding": _FOLDED}
