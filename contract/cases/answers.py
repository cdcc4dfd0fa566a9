"""Which answers are kept (rules P1, P2), and how flights end (rule L1)."""

from typing import Any

from cases.writing import Vector, gives


def _chat(*choices: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "choices": list(choices)}


def _choice(finish: Any = "stop", **message: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}


def _verdict(
    name: str, answer: Any, out: str | None, *, operation: str = "chat", status: int = 200, limited: bool = False
) -> Vector:
    return gives(
        name, "P1", "why_not", {"operation": operation, "status": status, "answer": answer, "limited": limited}, out
    )


_CALL = {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
_SAID = _choice(content="Loire")
_CHATS = [
    _verdict("an answer with content is kept", _chat(_SAID), None),
    _verdict(
        "an answer with a tool call is kept", _chat(_choice("tool_calls", content=None, tool_calls=[_CALL])), None
    ),
    _verdict("a tool call that ends with stop is kept", _chat(_choice("stop", content=None, tool_calls=[_CALL])), None),
    _verdict(
        "an answer with a function call is kept",
        _chat(_choice("function_call", content=None, function_call={"name": "a"})),
        None,
    ),
    _verdict("a refusal is kept", _chat(_choice(content=None, refusal="no")), None),
    _verdict("audio is kept", _chat(_choice(content=None, audio={"id": "a"})), None),
    _verdict("content in parts is kept", _chat(_choice(content=[{"type": "text", "text": "x"}])), None),
    _verdict("0 as a text is content", _chat(_choice(content="0")), None),
    _verdict("white space is content", _chat(_choice(content=" ")), None),
    _verdict("an answer that says nothing is not kept", _chat(_choice(content="")), "empty"),
    _verdict(
        "an answer of nulls is not kept",
        _chat(_choice(content=None, refusal=None, tool_calls=None, audio=None)),
        "empty",
    ),
    _verdict(
        "an answer with an empty list of calls is not kept",
        _chat(_choice("tool_calls", content=None, tool_calls=[])),
        "empty",
    ),
    _verdict("content of no parts is not kept", _chat(_choice(content=[])), "empty"),
    _verdict("audio without anything is not kept", _chat(_choice(content=None, audio={})), "empty"),
    _verdict("reasoning alone is no answer", _chat(_choice(content="", reasoning_content="hm")), "empty"),
    _verdict("a message without members is not kept", _chat({"message": {}, "finish_reason": "stop"}), "empty"),
    _verdict(
        "an answer cut by the request's own limit is kept", _chat(_choice("length", content="Lo")), None, limited=True
    ),
    _verdict("an answer cut by another limit is not kept", _chat(_choice("length", content="Lo")), "length"),
    _verdict(
        "an answer that a filter cut is not kept",
        _chat(_choice("content_filter", content="Lo")),
        "finish-content_filter",
    ),
    _verdict("an end nobody knows is not kept", _chat(_choice("tired", content="Lo")), "finish"),
    _verdict("an error as an end is not kept", _chat(_choice("error", content="Lo")), "finish"),
    _verdict("an answer without an end is not kept", _chat(_choice(None, content="Lo")), "finish"),
    _verdict("an end that is a list is not kept", _chat(_choice(["stop"], content="Lo")), "finish"),
    _verdict("an end that is an object is not kept", _chat(_choice({}, content="Lo")), "finish"),
    _verdict("a missing end is not kept", _chat({"message": {"content": "x"}}), "finish"),
    _verdict("of two choices both must be answers", _chat(_SAID, _choice(content="")), "empty"),
    _verdict(
        "of two choices both must end well",
        _chat(_SAID, _choice("content_filter", content="x")),
        "finish-content_filter",
    ),
    _verdict("two good choices are kept", _chat(_SAID, _choice(content="Seine")), None),
    _verdict("an answer without choices is not kept", _chat(), "no-choice"),
    _verdict("an answer whose choices are missing is not kept", {"id": "x"}, "no-choice"),
    _verdict("choices that are no list are not kept", {"choices": {"0": _SAID}}, "no-choice"),
    _verdict("a choice that is no object is not kept", _chat("x"), "no-choice"),
    _verdict("a message that is a text is not kept", _chat({"message": "x", "finish_reason": "stop"}), "shape"),
    _verdict("a missing message is not kept", _chat({"finish_reason": "stop"}), "shape"),
    _verdict("tool calls that are no list are not kept", _chat(_choice(content="x", tool_calls={})), "shape"),
    _verdict("tool calls that are no objects are not kept", _chat(_choice(content="x", tool_calls=[None])), "shape"),
    _verdict("an answer that is a list is not kept", [_SAID], "no-choice"),
    _verdict("an answer that is null is not kept", None, "no-choice"),
]

_OTHERS = [
    _verdict("a top-level error is not kept", {**_chat(_SAID), "error": {"message": "x"}}, "error"),
    _verdict("an error that is a text is not kept", {**_chat(_SAID), "error": "x"}, "error"),
    _verdict("an error that is empty is still one", {**_chat(_SAID), "error": ""}, "error"),
    _verdict("an error of null is none", {**_chat(_SAID), "error": None}, None),
    _verdict("an error in predict is not kept", {"error": "x"}, "error", operation="predict"),
    *(
        _verdict(f"status {status} is not kept", _chat(_SAID), "status", status=status)
        for status in (201, 202, 204, 206, 301, 400, 404, 429, 500, 503)
    ),
    _verdict(
        "a completion with a text is kept",
        {"choices": [{"text": "x", "finish_reason": "stop"}]},
        None,
        operation="completion",
    ),
    _verdict(
        "a completion without a text is not kept",
        {"choices": [{"text": "", "finish_reason": "stop"}]},
        "empty",
        operation="completion",
    ),
    _verdict(
        "a completion whose text is null is not kept",
        {"choices": [{"text": None, "finish_reason": "stop"}]},
        "shape",
        operation="completion",
    ),
    _verdict(
        "a completion cut by its own limit is kept",
        {"choices": [{"text": "x", "finish_reason": "length"}]},
        None,
        operation="completion",
        limited=True,
    ),
    _verdict(
        "a completion cut by another limit is not kept",
        {"choices": [{"text": "x", "finish_reason": "length"}]},
        "length",
        operation="completion",
    ),
    *(
        _verdict(f"{what} is an answer of predict", answer, None, operation="predict")
        for what, answer in [
            ("0", 0),
            ("an empty text", ""),
            ("an empty list", []),
            ("false", False),
            ("null", None),
            ("an empty object", {}),
        ]
    ),
    _verdict("0 is an answer of a json route", 0, None, operation="json /a"),
    _verdict("an output that is empty is an answer of predict", {"output": ""}, None, operation="predict"),
]


def _limit(name: str, body: Any, out: bool) -> Vector:
    return gives(name, "P1", "has_limit", {"body": body}, out)


_LIMITS = [
    _limit("max_tokens limits an answer", {"max_tokens": 5}, True),
    _limit("max_completion_tokens limits an answer", {"max_completion_tokens": 5}, True),
    _limit("max_output_tokens limits an answer", {"max_output_tokens": 5}, True),
    _limit("a limit of 0 is one", {"max_tokens": 0}, True),
    _limit("a limit of null is none", {"max_tokens": None}, False),
    _limit("a request without a limit has none", {"n": 2}, False),
    _limit("a body that is no object has no limit", ["max_tokens"], False),
]

_ERROR = {"error": {"message": "no such model"}}
_NEGATIVES = [
    *(
        gives(
            f"an error of status {status} may be kept for a moment",
            "P2",
            "is_negative",
            {"status": status, "answer": _ERROR},
            True,
        )
        for status in (400, 404, 413, 422)
    ),
    *(
        gives(
            f"an error of status {status} is never kept",
            "P2",
            "is_negative",
            {"status": status, "answer": _ERROR},
            False,
        )
        for status in (200, 401, 402, 403, 408, 409, 425, 429, 500, 502, 503, 504)
    ),
    *(
        gives(name, "P2", "is_negative", {"status": 400, "answer": answer}, out)
        for name, answer, out in [
            ("an error told as a text may be kept", {"error": "x"}, True),
            ("an error told as null is not kept", {"error": None}, False),
            ("an error told as a list is not kept", {"error": []}, False),
            ("an error without its member is not kept", {"detail": "x"}, False),
            ("an error that is no object is not kept", "error", False),
            ("an error that is no JSON is not kept", None, False),
        ]
    ),
]


def _ending(name: str, attached: str, later: str, later_s: int = 0, **rest: Any) -> Vector:
    given = {"status": 200, "clean": True, "storable": True, "sent_any": True, "retried": False, **rest}
    return gives(name, "L1", "ending", given, {"attached": attached, "later": later, "later_s": later_s})


_ENDINGS = [
    _ending("a clean, storable answer is shared and hit later", "answer", "hit"),
    _ending(
        "a clean answer not to be stored is shared, and later callers fly alone for 5 s",
        "answer",
        "alone",
        5,
        storable=False,
    ),
    _ending("a 429 is shared, and told to later callers for 1 s", "answer", "same", 1, status=429, storable=False),
    _ending("a 500 is shared, and told to later callers for 1 s", "answer", "same", 1, status=500, storable=False),
    _ending("a 503 is shared, and told to later callers for 1 s", "answer", "same", 1, status=503, storable=False),
    _ending(
        "a connect failure is an error for the attached and for 1 s",
        "error",
        "same",
        1,
        status=None,
        clean=False,
        storable=False,
        sent_any=False,
    ),
    _ending(
        "a connect failure after a retry is the same",
        "error",
        "same",
        1,
        status=None,
        clean=False,
        storable=False,
        sent_any=False,
        retried=True,
    ),
    _ending(
        "a fallback's answer is shared, and told to later callers for 1 s, so that the first origin rests",
        "answer",
        "same",
        1,
        storable=False,
        fallback=True,
    ),
    _ending(
        "a fallback's answer lost after bytes is told to nobody else",
        "broken",
        "fly",
        clean=False,
        storable=False,
        fallback=True,
    ),
    _ending("a 400 is shared without holding anybody off", "answer", "fly", status=400, storable=False),
    _ending("a 404 that may be kept for a moment is shared like any other", "answer", "fly", status=404),
    _ending(
        "an answer lost before its first byte is asked for once more",
        "retry",
        "fly",
        clean=False,
        storable=False,
        sent_any=False,
    ),
    _ending(
        "lost again before its first byte it is an error",
        "error",
        "fly",
        clean=False,
        storable=False,
        sent_any=False,
        retried=True,
    ),
    _ending("an answer lost after bytes is broken and not stored", "broken", "fly", clean=False, storable=False),
    _ending(
        "an answer lost after bytes is not asked for again", "broken", "fly", clean=False, storable=False, retried=True
    ),
    _ending(
        "a 500 that is lost before its first byte is asked for once more",
        "retry",
        "fly",
        status=500,
        clean=False,
        storable=False,
        sent_any=False,
    ),
    _ending("a 204 is shared, and later callers fly alone", "answer", "alone", 5, status=204, storable=False),
]

FILES = {"storable": _CHATS + _OTHERS + _LIMITS + _NEGATIVES, "endings": _ENDINGS}
