"""What of a body counts, and its digest (rules K5 to K7, K10, C3)."""

from typing import Any

import reference

from cases.writing import Vector, asks, fails, gives, json_text, one_key, repeated, two_keys, utf8


def _keyed(name: str, rule: str, operation: str, body: Any, out: Any, **rest: Any) -> Vector:
    text = utf8(body) if isinstance(body, str) else json_text(body)
    return gives(name, rule, "keyed", {"operation": operation, "body": text, **rest}, out)


def _digest(name: str, rule: str, operation: str, body: Any, counts: Any, **rest: Any) -> Vector:
    given = {"operation": operation, "body": json_text(body), **rest}
    return gives(name, rule, "json_input", given, reference.json_digest(counts))


_SAYS = {"role": "user", "content": "x"}

_WHAT_COUNTS = [
    _keyed(
        "all ten members of no account are taken out of a chat",
        "K5",
        "chat",
        {
            "model": "m",
            "stream": True,
            "stream_options": {},
            "user": "u",
            "metadata": {},
            "safety_identifier": "s",
            "prompt_cache_key": "k",
            "prompt_cache_retention": "r",
            "service_tier": "t",
            "encoding_format": "float",
            "messages": [_SAYS],
            "seed": 1,
        },
        {"messages": [_SAYS], "seed": 1},
    ),
    *(
        _keyed(f"they are taken out of {operation} too", "K5", operation, {"model": "m", "user": "u", "x": 1}, {"x": 1})
        for operation in ("completion", "embedding", "responses", "messages", "moderation", "image")
    ),
    *(
        _keyed(
            f"nothing is taken out of {operation}",
            "K5",
            operation,
            {"model": "m", "user": "u", "x": None},
            {"model": "m", "user": "u", "x": None},
        )
        for operation in ("predict", "infer", "transcription", "json /a", "get /a")
    ),
    _keyed(
        "nested members stay",
        "K5",
        "chat",
        {"a": {"model": "m", "stream": None}},
        {"a": {"model": "m", "stream": None}},
    ),
    _keyed("members of messages stay", "K5", "chat", {"messages": [{"user": "u"}]}, {"messages": [{"user": "u"}]}),
    _keyed("a body that is no object stays", "K5", "chat", "[null]", [None]),
    _keyed("a cache object is taken out", "C3", "chat", {"cache": {"ttl": 1}, "x": 1}, {"x": 1}),
    _keyed("a cache that is no object stays", "C3", "chat", {"cache": True}, {"cache": True}),
    _keyed("a cache that is a list stays", "C3", "chat", {"cache": []}, {"cache": []}),
    _keyed("a cache object stays in predict", "C3", "predict", {"cache": {"ttl": 1}}, {"cache": {"ttl": 1}}),
    _keyed(
        "a null goes",
        "K6",
        "chat",
        {"a": None, "b": False, "c": 0, "d": "", "e": []},
        {"b": False, "c": 0, "d": "", "e": []},
    ),
    _keyed("n: 1 goes", "K6", "chat", {"n": 1}, {}),
    _keyed("n: 1.0 goes", "K6", "chat", '{"n":1.0}', {}),
    _keyed("n: true stays", "K6", "chat", {"n": True}, {"n": True}),
    _keyed("logprobs: false goes", "K6", "chat", {"logprobs": False}, {}),
    _keyed("logprobs: 0 stays", "K6", "completion", {"logprobs": 0}, {"logprobs": 0}),
    _keyed("a stop text becomes a list", "K6", "chat", {"stop": "x"}, {"stop": ["x"]}),
    _keyed("an empty stop text becomes a list", "K6", "chat", {"stop": ""}, {"stop": [""]}),
    _keyed("an ignored member goes", "C3", "chat", {"seed": 1, "x": 1}, {"x": 1}, ignored=["seed"]),
    _keyed(
        "members that carry the question are never ignored",
        "C3",
        "chat",
        {"messages": [], "input": 1, "prompt": 2, "tools": [], "seed": 3},
        {"messages": [], "input": 1, "prompt": 2, "tools": []},
        ignored=["messages", "input", "prompt", "tools", "model", "seed"],
    ),
    _keyed("ignoring means nothing to predict", "C3", "predict", {"seed": 1}, {"seed": 1}, ignored=["seed"]),
    _keyed(
        "__proto__ counts like any other member",
        "K5",
        "chat",
        '{"__proto__":{"user":"a"},"n":1}',
        {"__proto__": {"user": "a"}},
    ),
    _digest(
        "the input of a chat is the digest of what counts",
        "K4",
        "chat",
        {"model": "m", "messages": [_SAYS], "n": 1},
        {"messages": [_SAYS]},
    ),
    _digest(
        "the input of predict is the digest of all of it",
        "K4",
        "predict",
        {"model": "m", "n": 1},
        {"model": "m", "n": 1},
    ),
    _digest("an empty chat has an input", "K4", "chat", {"model": "m"}, {}),
    _digest(
        "an input of other scripts",
        "K4",
        "chat",
        {"messages": [{"content": "日本語 🙂"}]},
        {"messages": [{"content": "日本語 🙂"}]},
    ),
    _digest("an input of fractions", "K4", "json /a", {"a": [0.1, 1e-7, 1.0, -0.0]}, {"a": [0.1, 1e-7, 1, 0]}),
    _digest(
        "ignored members are not in the digest",
        "C3",
        "chat",
        {"messages": [], "seed": 5},
        {"messages": []},
        ignored=["seed"],
    ),
    gives("names that may be ignored are sorted", "C3", "ignored_names", {"names": ["b", "a", "b"]}, ["a", "b"]),
    gives(
        "names of the question may not be ignored",
        "C3",
        "ignored_names",
        {"names": ["messages", "tools", "input", "prompt", "model", "x"]},
        ["x"],
    ),
    gives(
        "bytes count as they are", "K4", "bytes_input", {"body": {"hex": "00ff10"}}, reference.sha256(b"\x00\xff\x10")
    ),
    gives(
        "no bytes are an input",
        "K4",
        "bytes_input",
        {"body": utf8("")},
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
]

_PARTS = [["model", "", b"whisper-1"], ["file", "audio/wav", b"RIFF\x00"]]
_UPLOADS = [
    gives(
        "parts count by name, content type, digest and length",
        "K10",
        "multipart_input",
        {"parts": [[name, kind, {"hex": content.hex()}] for name, kind, content in _PARTS]},
        reference.json_digest(
            [[name, kind, reference.sha256(content), len(content)] for name, kind, content in _PARTS]
        ),
    ),
    gives("no parts are an input", "K10", "multipart_input", {"parts": []}, reference.json_digest([])),
]


def _call(id_: Any, name: str = "get") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}


def _conversation(first: Any, second: Any, *, results: tuple[Any, Any]) -> dict[str, Any]:
    return {
        "messages": [
            _SAYS,
            {"role": "assistant", "content": None, "tool_calls": [_call(first, "a"), _call(second, "b")]},
            {"role": "tool", "tool_call_id": results[0], "content": "1"},
            {"role": "tool", "tool_call_id": results[1], "content": "2"},
        ]
    }


_BLOCKS = [
    {"type": "tool_use", "id": "toolu_9", "name": "a", "input": {"id": "toolu_9"}},
    {"type": "text", "text": "x", "id": "kept"},
]
_IDS = [
    _keyed(
        "ids of calls and results become numbers in order of appearance",
        "K7",
        "chat",
        _conversation("call_x", "call_y", results=("call_x", "call_y")),
        _conversation("#0", "#1", results=("#0", "#1")),
    ),
    _keyed(
        "a result without its call has a number too",
        "K7",
        "chat",
        {"messages": [{"role": "tool", "tool_call_id": "z", "content": ""}]},
        {"messages": [{"role": "tool", "tool_call_id": "#0", "content": ""}]},
    ),
    _keyed(
        "a message's own result is numbered before its calls, as its canonical text says them",
        "K7",
        "chat",
        {"messages": [{"tool_calls": [{"id": "b"}, {"id": "a"}], "tool_call_id": "a"}]},
        {"messages": [{"tool_calls": [{"id": "#1"}, {"id": "#0"}], "tool_call_id": "#0"}]},
    ),
    _keyed(
        "an id that looks like a number of ours is numbered",
        "K7",
        "chat",
        {"messages": [{"tool_call_id": "#7"}]},
        {"messages": [{"tool_call_id": "#0"}]},
    ),
    _keyed(
        "ids that are no texts stay",
        "K7",
        "chat",
        {"messages": [{"tool_calls": [{"id": 7}, {"id": None}], "tool_call_id": 8}]},
        {"messages": [{"tool_calls": [{"id": 7}, {"id": None}], "tool_call_id": 8}]},
    ),
    _keyed(
        "an empty id is a text",
        "K7",
        "chat",
        {"messages": [{"tool_call_id": ""}]},
        {"messages": [{"tool_call_id": "#0"}]},
    ),
    _keyed(
        "a message's own id stays",
        "K7",
        "chat",
        {"messages": [{"id": "msg_1", "content": "x"}]},
        {"messages": [{"id": "msg_1", "content": "x"}]},
    ),
    _keyed(
        "ids in a call's arguments stay",
        "K7",
        "chat",
        {"messages": [{"tool_calls": [{"id": "c", "function": {"id": "c", "arguments": '{"id":"c"}'}}]}]},
        {"messages": [{"tool_calls": [{"id": "#0", "function": {"id": "c", "arguments": '{"id":"c"}'}}]}]},
    ),
    _keyed(
        "a tool_call_id outside messages stays",
        "K7",
        "chat",
        {"tool_call_id": "a", "messages": []},
        {"tool_call_id": "a", "messages": []},
    ),
    _keyed("messages that are no list stay", "K7", "chat", {"messages": "x"}, {"messages": "x"}),
    _keyed(
        "messages that are no objects stay",
        "K7",
        "chat",
        {"messages": ["x", None, [{"id": "a"}]]},
        {"messages": ["x", None, [{"id": "a"}]]},
    ),
    _keyed(
        "ids in a completion stay",
        "K7",
        "completion",
        {"messages": [{"tool_call_id": "a"}]},
        {"messages": [{"tool_call_id": "a"}]},
    ),
    _keyed(
        "blocks in a completion stay",
        "K7",
        "completion",
        {"messages": [{"content": [{"type": "tool_use", "id": "a"}]}]},
        {"messages": [{"content": [{"type": "tool_use", "id": "a"}]}]},
    ),
    _keyed(
        "ids in predict stay",
        "K7",
        "predict",
        {"messages": [{"tool_call_id": "a"}]},
        {"messages": [{"tool_call_id": "a"}]},
    ),
    _keyed(
        "ids of a responses call's items are numbered, the call's before the item's",
        "K7",
        "responses",
        {
            "input": [
                {"type": "function_call", "id": "fc_1", "call_id": "call_1"},
                {"type": "function_call_output", "call_id": "call_1"},
            ]
        },
        {
            "input": [
                {"type": "function_call", "id": "#1", "call_id": "#0"},
                {"type": "function_call_output", "call_id": "#0"},
            ]
        },
    ),
    _keyed("an input that is a text stays", "K7", "responses", {"input": "call_id"}, {"input": "call_id"}),
    _keyed(
        "ids of tool_use blocks and their results are numbered",
        "K7",
        "messages",
        {
            "messages": [
                {"content": _BLOCKS},
                {"content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "1"}]},
            ]
        },
        {
            "messages": [
                {"content": [{**_BLOCKS[0], "id": "#0"}, _BLOCKS[1]]},
                {"content": [{"type": "tool_result", "tool_use_id": "#0", "content": "1"}]},
            ]
        },
    ),
    _keyed(
        "a messages call's content that is a text stays",
        "K7",
        "messages",
        {"messages": [{"content": "x"}]},
        {"messages": [{"content": "x"}]},
    ),
    one_key(
        "tool call ids drawn anew share a key",
        "K7",
        asks("chat", _conversation("call_a", "call_b", results=("call_a", "call_b"))),
        asks("chat", _conversation("call_1", "call_2", results=("call_1", "call_2"))),
    ),
    two_keys(
        "results that are crossed have another key",
        "K7",
        asks("chat", _conversation("call_a", "call_b", results=("call_a", "call_b"))),
        asks("chat", _conversation("call_a", "call_b", results=("call_b", "call_a"))),
    ),
    two_keys(
        "a result that answers no call has another key",
        "K7",
        asks("chat", _conversation("call_a", "call_b", results=("call_a", "call_b"))),
        asks("chat", _conversation("call_a", "call_b", results=("call_a", "call_c"))),
    ),
    two_keys(
        "two calls with one id have another key than two with two",
        "K7",
        asks("chat", _conversation("a", "a", results=("a", "a"))),
        asks("chat", _conversation("a", "b", results=("a", "b"))),
    ),
    one_key(
        "message ids of a responses call don't count",
        "K7",
        asks("responses", {"input": [{"type": "message", "role": "assistant", "id": "msg_1", "content": "x"}]}),
        asks("responses", {"input": [{"type": "message", "role": "assistant", "id": "msg_2", "content": "x"}]}),
    ),
]


def _embedding(name: str, body: Any, out: Any) -> Vector:
    return gives(name, "K10", "embedding_inputs", {"body": json_text(body)}, out)


_EMBEDDINGS = [
    _embedding("a text is one query", {"model": "m", "input": "a"}, [{"model": "m", "input": "a"}]),
    _embedding(
        "each text of a list is a query with all other members",
        {"input": ["a", "b"], "dimensions": 2},
        [{"input": "a", "dimensions": 2}, {"input": "b", "dimensions": 2}],
    ),
    _embedding("an array of tokens is one query", {"input": [1, 2]}, [{"input": [1, 2]}]),
    _embedding("each array of tokens is a query", {"input": [[1], [2, 3]]}, [{"input": [1]}, {"input": [2, 3]}]),
    _embedding("a text given twice is two queries", {"input": ["a", "a"]}, [{"input": "a"}, {"input": "a"}]),
    _embedding("texts and tokens may be mixed", {"input": ["a", [1]]}, [{"input": "a"}, {"input": [1]}]),
    gives(
        "as many inputs as there may be",
        "K10",
        "embedding_inputs",
        {"body": repeated(('{"input":["a"', 1), (',"a"', 2047), ("]}", 1))},
        [{"input": "a"}] * 2048,
    ),
    fails(
        "an input more than there may be is malformed",
        "K10",
        "embedding_inputs",
        {"body": repeated(('{"input":["a"', 1), (',"a"', 2048), ("]}", 1))},
        "malformed_body",
    ),
    *(
        fails(
            f"an input that is {what} is malformed", "K10", "embedding_inputs", {"body": utf8(body)}, "malformed_body"
        )
        for what, body in [
            ("absent", "{}"),
            ("null", '{"input":null}'),
            ("an empty list", '{"input":[]}'),
            ("a number", '{"input":1}'),
            ("a list with an empty list", '{"input":["a",[]]}'),
            ("an empty text", '{"input":""}'),
            ("a list with an empty text", '{"input":["a",""]}'),
            ("a fraction", '{"input":[1.5]}'),
            ("a list of true", '{"input":[true]}'),
            ("tokens and texts in one row", '{"input":[1,"a"]}'),
            ("an object", '{"input":{"0":"a"}}'),
            ("a list of nulls", '{"input":[null]}'),
            ("a list of lists of texts", '{"input":[["a"]]}'),
            ("a list of tokens and a fraction", '{"input":[[1,1.5]]}'),
        ]
    ),
]

FILES = {"inputs": _WHAT_COUNTS + _UPLOADS, "ids": _IDS, "embedding-inputs": _EMBEDDINGS}
