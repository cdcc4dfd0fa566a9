"""From a whole answer to a transcript (rule P3)."""

from typing import Any

from cases.chats import HEAD, USAGE, call, chunk, whole
from cases.writing import Vector, fails, gives


def _unfolds(name: str, answer: Any, out: list[Any], *, usage: bool = False, operation: str = "chat") -> Vector:
    return gives(
        name, "P3", "transcript_of", {"operation": operation, "whole": answer, "usage": usage}, [*out, "[DONE]"]
    )


_OPENED = chunk({"role": "assistant", "content": ""})
_ONLY_USAGE = {"id": None, "object": "chat.completion.chunk", "choices": [], "usage": USAGE}
_NO_CHOICE = {"id": None, "object": "chat.completion.chunk", "choices": []}
_UNFOLDED = [
    _unfolds(
        "a role comes first, then text cut after white space, then the end",
        whole({"content": "Name a  river."}),
        [
            _OPENED,
            chunk({"content": "Name "}),
            chunk({"content": "a  "}),
            chunk({"content": "river."}),
            chunk({}, "stop"),
        ],
    ),
    _unfolds(
        "an answer without content opens with null",
        whole({}),
        [chunk({"role": "assistant", "content": None}), chunk({}, "stop")],
    ),
    _unfolds(
        "each call comes in one piece, with its position",
        whole(
            {
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "x", "arguments": '{"a": 1}'}},
                    {"id": "b"},
                ]
            },
            "tool_calls",
        ),
        [
            chunk({"role": "assistant", "content": None}),
            chunk(call(0, id="a", type="function", function={"name": "x", "arguments": '{"a": 1}'})),
            chunk(call(1, id="b")),
            chunk({}, "tool_calls"),
        ],
    ),
    _unfolds(
        "a function call comes in one piece",
        whole({"function_call": {"name": "x", "arguments": "{}"}}, "function_call"),
        [
            chunk({"role": "assistant", "content": None}),
            chunk({"function_call": {"name": "x", "arguments": "{}"}}),
            chunk({}, "function_call"),
        ],
    ),
    _unfolds(
        "reasoning comes before content",
        whole({"content": "x", "reasoning_content": "h m"}),
        [
            chunk({"role": "assistant", "content": "", "reasoning_content": ""}),
            chunk({"reasoning_content": "h "}),
            chunk({"reasoning_content": "m"}),
            chunk({"content": "x"}),
            chunk({}, "stop"),
        ],
    ),
    _unfolds(
        "members nobody knows go out once, with the first event of their place",
        {**whole({"content": None, "citations": ["a"]}), "provider": "p"},
        [chunk({"role": "assistant", "content": None, "citations": ["a"]}, provider="p"), chunk({}, "stop")],
    ),
    _unfolds(
        "what every event tells goes out with every event",
        whole({"content": None}, service_tier=None, system_fingerprint="fp"),
        [
            chunk({"role": "assistant", "content": None}, service_tier=None, system_fingerprint="fp"),
            chunk({}, "stop", service_tier=None, system_fingerprint="fp"),
        ],
    ),
    _unfolds(
        "usage goes out to those who asked",
        whole({"content": "x"}, usage=USAGE),
        [
            _OPENED,
            chunk({"content": "x"}),
            chunk({}, "stop"),
            {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
        ],
        usage=True,
    ),
    _unfolds(
        "usage doesn't go out to others",
        whole({"content": "x"}, usage=USAGE),
        [_OPENED, chunk({"content": "x"}), chunk({}, "stop")],
    ),
    _unfolds(
        "usage that isn't there can't go out",
        whole({"content": "x"}),
        [_OPENED, chunk({"content": "x"}), chunk({}, "stop")],
        usage=True,
    ),
    _unfolds(
        "logprobs go out whole with the last event of their choice",
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "x"},
                    "logprobs": {"content": [{"token": "x"}]},
                    "finish_reason": "stop",
                }
            ],
        },
        [
            {
                **HEAD,
                "object": "chat.completion.chunk",
                "choices": [
                    {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
                ],
            },
            {
                **HEAD,
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": "x"}, "logprobs": None, "finish_reason": None}],
            },
            {
                **HEAD,
                "object": "chat.completion.chunk",
                "choices": [
                    {"index": 0, "delta": {}, "logprobs": {"content": [{"token": "x"}]}, "finish_reason": "stop"}
                ],
            },
        ],
    ),
    _unfolds(
        "a refusal goes out in pieces",
        whole({"refusal": "I can't"}),
        [
            chunk({"role": "assistant", "content": None, "refusal": ""}),
            chunk({"refusal": "I "}),
            chunk({"refusal": "can't"}),
            chunk({}, "stop"),
        ],
    ),
    _unfolds(
        "reasoning by its other name goes out in pieces before content",
        whole({"content": "x", "reasoning": "h m"}),
        [
            chunk({"role": "assistant", "content": "", "reasoning": ""}),
            chunk({"reasoning": "h "}),
            chunk({"reasoning": "m"}),
            chunk({"content": "x"}),
            chunk({}, "stop"),
        ],
    ),
    _unfolds(
        "reasoning goes out under both its names, then content, then a refusal",
        whole({"refusal": "d", "content": "c", "reasoning": "b", "reasoning_content": "a"}),
        [
            chunk({"role": "assistant", "content": "", "refusal": "", "reasoning": "", "reasoning_content": ""}),
            chunk({"reasoning_content": "a"}),
            chunk({"reasoning": "b"}),
            chunk({"content": "c"}),
            chunk({"refusal": "d"}),
            chunk({}, "stop"),
        ],
    ),
    _unfolds(
        "content in parts goes out at once",
        whole({"content": [{"type": "text", "text": "a b"}]}),
        [chunk({"role": "assistant", "content": [{"type": "text", "text": "a b"}]}), chunk({}, "stop")],
    ),
    _unfolds(
        "choices without an index are numbered as they stand",
        {**HEAD, "choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}] * 2},
        [
            chunk({"role": "assistant", "content": None}),
            chunk({}, "stop"),
            chunk({"role": "assistant", "content": None}, index=1),
            chunk({}, "stop", index=1),
        ],
    ),
    _unfolds(
        "choices go out one after the other",
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"},
                {"index": 1, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"},
            ],
        },
        [
            _OPENED,
            chunk({"content": "a"}),
            chunk({}, "stop"),
            chunk({"role": "assistant", "content": None}, index=1),
            chunk({}, "stop", index=1),
        ],
    ),
    _unfolds(
        "a text completion goes out in pieces",
        {**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": "a b", "finish_reason": "stop"}]},
        [
            {**HEAD, "object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": end}]}
            for text, end in (("a ", None), ("b", None), ("", "stop"))
        ],
        operation="completion",
    ),
    _unfolds(
        "a text completion's logprobs go out whole with its last event",
        {**HEAD, "choices": [{"index": 0, "text": "a", "logprobs": {"tokens": ["a"]}, "finish_reason": "stop"}]},
        [
            {
                **HEAD,
                "object": "text_completion",
                "choices": [{"index": 0, "text": text, "logprobs": logprobs, "finish_reason": end}],
            }
            for text, logprobs, end in (("a", None, None), ("", {"tokens": ["a"]}, "stop"))
        ],
        operation="completion",
    ),
    _unfolds(
        "text completions without an index are numbered as they stand",
        {**HEAD, "choices": [{"text": "", "finish_reason": "stop"}] * 2},
        [
            {**HEAD, "object": "text_completion", "choices": [{"index": i, "text": "", "finish_reason": "stop"}]}
            for i in (0, 1)
        ],
        operation="completion",
    ),
    _unfolds(
        "an index is given back whatever it is",
        {**HEAD, "choices": [{"index": i, "message": {"role": "a"}, "finish_reason": "stop"} for i in (None, "7")]},
        [
            *(chunk({"role": "a"}, index=None), chunk({}, "stop", index=None)),
            *(chunk({"role": "a"}, index="7"), chunk({}, "stop", index="7")),
        ],
    ),
    _unfolds(
        "an answer without an id has null", {"choices": [], "usage": USAGE}, [_NO_CHOICE, _ONLY_USAGE], usage=True
    ),
    *(
        _unfolds(
            f"a {operation} answer without choices tells all else in one event",
            {**HEAD, "object": "x", "choices": [], "prompt_filter_results": [1], "usage": USAGE},
            [{**HEAD, "object": kind, "prompt_filter_results": [1], "choices": []}],
            operation=operation,
        )
        for operation, kind in [("chat", "chat.completion.chunk"), ("completion", "text_completion")]
    ),
    *(
        fails(name, "P3", "transcript_of", {"operation": operation, "whole": answer, "usage": True}, "not_an_answer")
        for name, operation, answer in [
            ("an answer without choices can't be unfolded", "chat", {}),
            ("choices that are an object can't be unfolded", "chat", {"choices": {}}),
            ("a choice that is null can't be unfolded", "chat", {"choices": [None]}),
            ("a choice without a message can't be unfolded", "chat", {"choices": [{}]}),
            ("a message that is a text can't be unfolded", "chat", {"choices": [{"message": "x"}]}),
            ("calls that are a text can't be unfolded", "chat", {"choices": [{"message": {"tool_calls": "x"}}]}),
            ("a call that is a text can't be unfolded", "chat", {"choices": [{"message": {"tool_calls": ["x"]}}]}),
            ("a choice without its text can't be unfolded", "completion", {"choices": [{}]}),
            ("a text that is null can't be unfolded", "completion", {"choices": [{"text": None}]}),
        ]
    ),
    *(
        gives(name, "P3", "pieces", {"text": text}, out)
        for name, text, out in [
            ("no text has no piece", "", []),
            ("a word is a piece", "Loire", ["Loire"]),
            ("a piece ends after a run of white space", "a \t\r\n b", ["a \t\r\n ", "b"]),
            ("white space at the start is a piece", "  a", ["  ", "a"]),
            ("white space alone is a piece", " \n", [" \n"]),
            ("other white space cuts nothing", "a\xa0b\u2003c\x0bd", ["a\xa0b\u2003c\x0bd"]),
            ("64 characters are one piece", "x" * 64, ["x" * 64]),
            ("65 characters are two", "x" * 65, ["x" * 64, "x"]),
            ("code points are counted, not bytes", "🙂" * 65, ["🙂" * 64, "🙂"]),
            ("white space counts in the 64", "x" * 64 + " y", ["x" * 64, " ", "y"]),
            ("a text of 200 spaces is cut too", " " * 200, [" " * 64, " " * 64, " " * 64, " " * 8]),
        ]
    ),
]

FILES = {"unfolding": _UNFOLDED}
