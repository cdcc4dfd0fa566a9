"""Fresh ids, usage for those who asked, and predict (rules P3, P4, R3)."""

from typing import Any

import reference

from cases.writing import Vector, fails, gives, hexed, utf8

_CHANCE = bytes(range(16))


def _fresh(name: str, recorded: str, randomness: bytes = _CHANCE) -> Vector:
    given = {"recorded": recorded, "randomness": hexed(randomness)}
    return gives(name, "P3", "fresh_id", given, reference.fresh_id(recorded, randomness))


_ONE, _OTHER = "call_abcdefghijklmnopqrstuvwx", "call_ABCDEFGHIJKLMNOPQRSTUVWX"
_NEW_ONE, _NEW_OTHER = reference.fresh_id(_ONE, _CHANCE), reference.fresh_id(_OTHER, _CHANCE)


def _told(id_: str) -> str:
    return f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"{id_}"}}]}}}}]}}'


def _transcript(name: str, transcript: str, out: str) -> Vector:
    return gives(
        name,
        "P3",
        "transcript_with_fresh_ids",
        {"transcript": utf8(transcript), "randomness": hexed(_CHANCE)},
        utf8(out),
    )


def _whole(name: str, message: Any, out: Any) -> Vector:
    whole, fresh = ({"choices": [{"message": m}]} for m in (message, out))
    return gives(name, "P3", "whole_with_fresh_ids", {"whole": whole, "randomness": hexed(_CHANCE)}, fresh)


_IDS = [
    _fresh("a fresh id keeps its prefix and length", _ONE),
    _fresh("another recorded id becomes another fresh one", _OTHER),
    _fresh("other randomness makes another fresh id", _ONE, bytes(16)),
    _fresh("a prefix ends with the last underscore or dash", "chatcmpl-tool-9f86d081884c7d65"),
    _fresh("an underscore after a dash ends the prefix", "a-b_123456789"),
    _fresh("nine characters leave room enough for chance", "123456789"),
    _fresh("eight characters don't, so there are 24", "12345678"),
    _fresh("a short id becomes a longer one", "call_1"),
    _fresh("an id of a prefix alone gets 24 characters", "call_"),
    _fresh("a long id needs a second block", "x" * 80),
    _fresh("an id's length is counted in code points", "call_🙂🙂🙂🙂🙂"),
    _fresh("nine code points leave room enough for chance", "call_🙂🙂🙂🙂🙂🙂🙂🙂🙂"),
    _fresh("an id of another script", "вызов_абвгдежзи"),
    _whole(
        "a whole answer's calls get fresh ids",
        {"tool_calls": [{"id": _ONE}, {"id": _OTHER}]},
        {"tool_calls": [{"id": _NEW_ONE}, {"id": _NEW_OTHER}]},
    ),
    _whole(
        "equal ids stay equal inside an answer",
        {"tool_calls": [{"id": _ONE}, {"id": _ONE}]},
        {"tool_calls": [{"id": _NEW_ONE}, {"id": _NEW_ONE}]},
    ),
    _whole("an answer without calls stays", {"content": _ONE, "id": _ONE}, {"content": _ONE, "id": _ONE}),
    _whole(
        "an empty id and one that is no text stay",
        {"tool_calls": [{"id": ""}, {"id": 5}, {}]},
        {"tool_calls": [{"id": ""}, {"id": 5}, {}]},
    ),
    _whole(
        "ids inside a call's arguments stay",
        {"tool_calls": [{"id": _ONE, "function": {"arguments": _ONE}}]},
        {"tool_calls": [{"id": _NEW_ONE, "function": {"arguments": _ONE}}]},
    ),
    _transcript(
        "an event that names an id is written with a fresh one",
        f"data: {_told(_ONE)}\n\n",
        f"data: {_told(_NEW_ONE)}\n\n",
    ),
    _transcript(
        "other events keep their bytes",
        f'data:  {{"a" : 1}}\r\n\r\n: ping\n\ndata: {_told(_ONE)}\n\ndata: [DONE]\n\n',
        f'data:  {{"a" : 1}}\r\n\r\n: ping\n\ndata: {_told(_NEW_ONE)}\n\ndata: [DONE]\n\n',
    ),
    _transcript(
        "an event's other lines stay",
        f"id: 7\nevent: x\ndata: {_told(_ONE)}\nretry: 5\n\n",
        f"id: 7\nevent: x\nretry: 5\ndata: {_told(_NEW_ONE)}\n\n",
    ),
    _transcript(
        "pieces of arguments without an id keep their bytes",
        'data: {"choices":[{"delta":{"tool_calls":[{"index": 0}]}}]}\n\n',
        'data: {"choices":[{"delta":{"tool_calls":[{"index": 0}]}}]}\n\n',
    ),
    _transcript(
        "an id is found though the name of calls is escaped",
        f"data: {_told(_ONE).replace('tool', chr(92) + 'u0074ool')}\n\n",
        f"data: {_told(_NEW_ONE)}\n\n",
    ),
    _transcript(
        "a byte order mark goes when its event is written anew",
        f"\ufeffdata: {_told(_ONE)}\n\n",
        f"data: {_told(_NEW_ONE)}\n\n",
    ),
    _transcript(
        "the data of an event on several lines comes on one",
        f"data: {_told(_ONE)[:12]}\ndata: {_told(_ONE)[12:]}\n\n",
        f"data: {_told(_NEW_ONE)}\n\n",
    ),
    _transcript(
        "calls that are no list of objects keep their bytes",
        'data: {"choices":[{"delta":{"tool_calls": {"id":"call_1"}}},{"delta":{"tool_calls":["call_1"]}}, "x"]}\n\n',
        'data: {"choices":[{"delta":{"tool_calls": {"id":"call_1"}}},{"delta":{"tool_calls":["call_1"]}}, "x"]}\n\n',
    ),
    _transcript(
        "an event that can't be read keeps its bytes",
        f"data: {_told(_ONE)}}}\n\ndata: tool_calls\n\n",
        f"data: {_told(_ONE)}}}\n\ndata: tool_calls\n\n",
    ),
    _transcript(
        "what follows the last event stays", f"data: {_told(_ONE)}\n\ndata: x", f"data: {_told(_NEW_ONE)}\n\ndata: x"
    ),
]

_USAGE = '{"choices":[],"usage":{"total_tokens":6}}'
_SAID = '{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":null}'


def _less_usage(name: str, transcript: str, out: str) -> Vector:
    return gives(name, "P4", "without_usage", {"transcript": utf8(transcript)}, utf8(out))


def _only(name: str, event: str | bytes, out: bool) -> Vector:
    told = hexed(event) if isinstance(event, bytes) else utf8(event)
    return gives(name, "P4", "tells_only_usage", {"event": told}, out)


_FOR_THOSE_WHO_ASKED = [
    _less_usage(
        "the event that tells only usage is withheld",
        f"data: {_SAID}\n\ndata: {_USAGE}\n\ndata: [DONE]\n\n",
        f"data: {_SAID}\n\ndata: [DONE]\n\n",
    ),
    _less_usage("a transcript without usage stays", "data: {}\n\ndata: [DONE]\n\n", "data: {}\n\ndata: [DONE]\n\n"),
    _less_usage("the rest keeps its bytes", f": ping\r\n\r\ndata: {_USAGE}\n\nx", ": ping\r\n\r\nx"),
    _less_usage(
        "usage told beside a choice stays",
        'data: {"choices":[{}],"usage":{"total_tokens":6}}\n\n',
        'data: {"choices":[{}],"usage":{"total_tokens":6}}\n\n',
    ),
    _only("no choices and usage tell only usage", f"data: {_USAGE}\n\n", True),
    _only("white space doesn't hide usage", 'data: { "usage" : {} , "choices" : [ ] }\n\n', True),
    _only("usage of null is none", 'data: {"choices":[],"usage":null}\n\n', False),
    _only("an event with a choice tells more", f"data: {_SAID}\n\n", False),
    _only("an event without choices is another kind", 'data: {"usage":{}}\n\n', False),
    _only("[DONE] tells no usage", "data: [DONE]\n\n", False),
    _only("a text that holds usage is none", 'data: "\\"usage\\""\n\n', False),
    _only("a list that holds usage is none", 'data: ["usage"]\n\n', False),
    _only("an event that is no JSON tells no usage", 'data: "usage"}\n\n', False),
    _only("a comment tells no usage", ': "usage"\n\n', False),
    _only("an event that is no UTF-8 tells no usage", b'data: {"choices":[],"usage":{"\xff":1}}\n\n', False),
    _only(
        "an event with a lone surrogate tells no usage", r'data: {"choices":[],"usage":{"a":"\ud83d"}}' + "\n\n", False
    ),
]


_STREAMED = f"data: {_told(_ONE)}\n\n" + 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
_STREAMED_USAGE = f"{_STREAMED}data: {_USAGE}\n\ndata: [DONE]\n\n"
_WHOLE = '{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}'
_WHOLE_CALL = f'{{"choices":[{{"message":{{"tool_calls":[{{"id":"{_ONE}"}}]}}}}]}}'


def _given_whole(name: str, body: str, out: str, *, shape: str, operation: str = "chat", **rest: Any) -> Vector:
    given = {"operation": operation, "shape": shape, "body": utf8(body), **rest}
    return gives(name, "P3", "whole", given, utf8(out))


def _given_events(name: str, body: str, out: str, *, shape: str, operation: str = "chat", **rest: Any) -> Vector:
    given = {"operation": operation, "shape": shape, "body": utf8(body), "usage": False, **rest}
    return gives(name, "P3", "events", given, utf8(out))


def _whole_call(id_: str) -> str:
    message = f'{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id_}"}}]}}'
    choice = f'{{"index":0,"message":{message},"finish_reason":"tool_calls"}}'
    return f'{{"object":"chat.completion","choices":[{choice}],"usage":{{"total_tokens":6}}}}'


_WHOLE_AND_USAGE = (
    '{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"Hi you","n":1},"finish_reason":"stop"}],'
    '"provider":"p","usage":{"total_tokens":6}}'
)
_IN_EVENTS = "".join(
    f'data: {{"id":"a","object":"chat.completion.chunk",{rest}}}\n\n'
    for rest in [
        '"provider":"p","choices":[{"index":0,"delta":{"role":"assistant","content":"","n":1},"finish_reason":null}]',
        '"choices":[{"index":0,"delta":{"content":"Hi "},"finish_reason":null}]',
        '"choices":[{"index":0,"delta":{"content":"you"},"finish_reason":null}]',
        '"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]',
    ]
)
_CALL_IN_EVENTS = (
    "".join(
        f'data: {{"id":null,"object":"chat.completion.chunk","choices":[{{"index":0,"delta":{rest}}}]}}\n\n'
        for rest in [
            '{"role":"assistant","content":null},"finish_reason":null',
            f'{{"tool_calls":[{{"index":0,"id":"{_NEW_ONE}"}}]}},"finish_reason":null',
            '{},"finish_reason":"tool_calls"',
        ]
    )
    + "data: [DONE]\n\n"
)
_CHANCE_GIVEN = {"randomness": hexed(_CHANCE)}
_SHAPES = [
    _given_whole(
        "a whole answer is given byte for byte", f" {_WHOLE}\n", f" {_WHOLE}\n", shape="whole", **_CHANCE_GIVEN
    ),
    _given_whole(
        "the calls of a record get fresh ids when it is given whole",
        _WHOLE_CALL,
        _WHOLE_CALL.replace(_ONE, _NEW_ONE),
        shape="whole",
        **_CHANCE_GIVEN,
    ),
    _given_whole(
        "a whole answer that can't be read keeps its bytes",
        f"{_WHOLE_CALL}}}",
        f"{_WHOLE_CALL}}}",
        shape="whole",
        **_CHANCE_GIVEN,
    ),
    _given_whole("without randomness a whole answer's calls keep their ids", _WHOLE_CALL, _WHOLE_CALL, shape="whole"),
    _given_whole(
        "a json route's tool_calls are none of ours",
        _WHOLE_CALL,
        _WHOLE_CALL,
        shape="whole",
        operation="json /a",
        **_CHANCE_GIVEN,
    ),
    _given_whole(
        "a transcript is given whole, with fresh ids",
        _STREAMED_USAGE,
        _whole_call(_NEW_ONE),
        shape="events",
        **_CHANCE_GIVEN,
    ),
    _given_whole(
        "without randomness a transcript is given whole with its ids",
        _STREAMED_USAGE,
        _whole_call(_ONE),
        shape="events",
    ),
    _given_events(
        "a transcript is given byte for byte to those who asked for usage",
        _STREAMED_USAGE,
        _STREAMED_USAGE,
        shape="events",
        usage=True,
    ),
    _given_events(
        "a whole answer is given as a transcript, without usage",
        _WHOLE_AND_USAGE,
        _IN_EVENTS + "data: [DONE]\n\n",
        shape="whole",
    ),
    _given_events(
        "a whole answer is given as a transcript, with usage for those who asked",
        _WHOLE_AND_USAGE,
        _IN_EVENTS + 'data: {"id":"a","object":"chat.completion.chunk","choices":[],"usage":{"total_tokens":6}}\n\n'
        "data: [DONE]\n\n",
        shape="whole",
        usage=True,
    ),
    _given_events(
        "a whole answer's calls get fresh ids when it is given as a transcript",
        _whole_call(_ONE),
        _CALL_IN_EVENTS,
        shape="whole",
        **_CHANCE_GIVEN,
    ),
    *(
        fails(name, "P3", "events", {"operation": "chat", "shape": "whole", "body": utf8(body), "usage": False}, error)
        for name, body, error in [
            ("a body that is no JSON has no transcript", "oops", "not_an_answer"),
            ("a body that is a list has no transcript", "[]", "not_an_answer"),
        ]
    ),
    _given_events("others get it without usage", _STREAMED_USAGE, f"{_STREAMED}data: [DONE]\n\n", shape="events"),
    _given_events(
        "a transcript's calls get fresh ids",
        _STREAMED_USAGE,
        _STREAMED_USAGE.replace(_ONE, _NEW_ONE),
        shape="events",
        usage=True,
        **_CHANCE_GIVEN,
    ),
    _given_events(
        "a text completion's transcript keeps every id",
        _STREAMED_USAGE,
        _STREAMED_USAGE,
        shape="events",
        operation="completion",
        usage=True,
        **_CHANCE_GIVEN,
    ),
]


def _asks(name: str, body: str, rest: str = "", prompt: str = "Hi") -> Vector:
    out = f'{{"messages":[{{"role":"user","content":"{prompt}"}}]{rest}}}'
    return gives(name, "R3", "question_of", {"body": utf8(body)}, utf8(out))


def _refused(name: str, body: str) -> Vector:
    return fails(name, "R3", "question_of", {"body": utf8(body)}, "malformed_body")


def _answers(name: str, message: dict[str, Any], out: str) -> Vector:
    return gives(name, "R3", "answer_of", {"chat": {"choices": [{"message": message}]}}, utf8(out))


_PREDICT = [
    _asks("a prompt is one user message", '{"prompt":"Hi"}'),
    _asks("an empty prompt is one too", '{"prompt":""}', prompt=""),
    _asks(
        "four options are passed on",
        '{"stop":["x"],"seed":1,"prompt":"Hi","temperature":0,"max_tokens":5}',
        ',"max_tokens":5,"temperature":0,"seed":1,"stop":["x"]',
    ),
    _asks("an option of null is not passed on", '{"prompt":"Hi","seed":null}'),
    _asks(
        "an option keeps its digits",
        '{"prompt":"Hi","seed":18446744073709551617,"temperature":1.0}',
        ',"temperature":1.0,"seed":18446744073709551617',
    ),
    _refused("a text model needs a prompt", "{}"),
    _refused("a prompt that is no text is refused", '{"prompt":["Hi"]}'),
    _refused("a member a text model doesn't know is refused", '{"prompt":"Hi","user":"u"}'),
    _refused("a body that is a list is refused", '["Hi"]'),
    _refused("a body that is no JSON is refused", "Hi"),
    _refused("a body with a number that overflows is refused", '{"prompt":"Hi","seed":1e400}'),
    _answers("content is the output", {"content": "Loire 🙂"}, '{"output":"Loire 🙂"}'),
    _answers("content in parts is the output as it is", {"content": []}, '{"output":[]}'),
    _answers("no content is an empty output", {"content": None}, '{"output":""}'),
]

FILES = {
    "fresh-ids": _IDS,
    "shapes": _SHAPES,
    "usage": _FOR_THOSE_WHO_ASKED,
    "predict": _PREDICT,
}
