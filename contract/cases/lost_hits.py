"""What must share a key: the same question in other words (faults known from other caches)."""

from typing import Any

from cases.writing import Vector, asks, one_key, two_keys

_ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Name a river."}]}
_TEXT = '{"model":"gpt-4o","messages":[{"role":"user","content":"Name a river."}]}'


def _chat(**members: Any) -> dict[str, Any]:
    return asks("chat", {**_ASKED, **members})


def _counts_as_absent(name: str, rule: str, **members: Any) -> Vector:
    return one_key(name, rule, _chat(**members), _chat())


_SPELLING = [
    one_key(
        "the order of members doesn't count",
        "K5",
        asks("chat", _TEXT),
        asks("chat", '{"messages":[{"content":"Name a river.","role":"user"}],"model":"gpt-4o"}'),
    ),
    one_key(
        "white space between tokens doesn't count",
        "K5",
        asks("chat", _TEXT),
        asks("chat", _TEXT.replace(",", " ,\n ").replace(":", " : ")),
    ),
    one_key(
        "escapes that mean the same don't count",
        "K5",
        asks("chat", _TEXT),
        asks("chat", _TEXT.replace("river", r"r\u0069ver").replace("role", r"\u0072ole")),
    ),
    one_key(
        "a schema is compared by what it says, not by its order",
        "K5",
        _chat(response_format={"type": "json_schema", "json_schema": {"schema": {"type": "object", "title": "a"}}}),
        _chat(response_format={"json_schema": {"schema": {"title": "a", "type": "object"}}, "type": "json_schema"}),
    ),
    one_key(
        "the order of members inside a tool doesn't count",
        "K5",
        _chat(tools=[{"type": "function", "function": {"name": "a", "description": "b"}}]),
        _chat(tools=[{"function": {"description": "b", "name": "a"}, "type": "function"}]),
    ),
    one_key(
        "the order of names in logit_bias doesn't count",
        "K5",
        _chat(logit_bias={"9": 1, "10": 2}),
        _chat(logit_bias={"10": 2, "9": 1}),
    ),
    one_key(
        "1 and 1.0 are one number",
        "K5",
        asks("chat", '{"messages":[],"temperature":1}'),
        asks("chat", '{"messages":[],"temperature":1.0}'),
    ),
    one_key(
        "0.5 and 5e-1 are one number",
        "K5",
        asks("chat", '{"messages":[],"temperature":0.5}'),
        asks("chat", '{"messages":[],"temperature":5e-1}'),
    ),
    one_key(
        "0 and minus 0 are one number",
        "K5",
        asks("chat", '{"messages":[],"temperature":0}'),
        asks("chat", '{"messages":[],"temperature":-0.0}'),
    ),
    one_key("POST and QUERY are one operation", "K2", {**_chat(), "method": "POST"}, {**_chat(), "method": "QUERY"}),
]

_DEFAULTS = [
    _counts_as_absent("n: 1 is absent", "K6", n=1),
    one_key("n: 1.0 is absent", "K6", asks("chat", _TEXT[:-1] + ',"n":1.0}'), asks("chat", _TEXT)),
    _counts_as_absent("logprobs: false is absent", "K6", logprobs=False),
    _counts_as_absent("stream: false is absent", "K6", stream=False),
    _counts_as_absent("stream: null is absent", "K6", stream=None),
    _counts_as_absent("stream: true asks the same", "K5", stream=True),
    _counts_as_absent("stream_options ask the same", "K5", stream=True, stream_options={"include_usage": True}),
    _counts_as_absent("temperature: null is absent", "K6", temperature=None),
    _counts_as_absent("tools: null is absent", "K6", tools=None),
    _counts_as_absent("stop: null is absent", "K6", stop=None),
    _counts_as_absent("a null of a name nobody knows is absent", "K6", zzz=None),
    one_key("a stop text is a list of one", "K6", _chat(stop="\n"), _chat(stop=["\n"])),
    two_keys("two stop texts are not one", "K6", _chat(stop="ab"), _chat(stop=["a", "b"])),
    two_keys("the order of stop texts counts", "K6", _chat(stop=["a", "b"]), _chat(stop=["b", "a"])),
    two_keys("an absent temperature is not 0", "K6", _chat(), _chat(temperature=0)),
    two_keys("an absent temperature is not 1", "K6", _chat(), _chat(temperature=1)),
    two_keys("an empty list of tools is not absent", "K6", _chat(), _chat(tools=[])),
    two_keys(
        "the order of messages counts",
        "K6",
        _chat(messages=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]),
        _chat(messages=[{"role": "user", "content": "b"}, {"role": "user", "content": "a"}]),
    ),
]

_WHO_AND_HOW = [
    _counts_as_absent("user doesn't count", "K5", user="u-1"),
    _counts_as_absent("metadata doesn't count", "K5", metadata={"trace": "1"}),
    _counts_as_absent("safety_identifier doesn't count", "K5", safety_identifier="s"),
    _counts_as_absent("prompt_cache_key doesn't count", "K5", prompt_cache_key="k"),
    _counts_as_absent("prompt_cache_retention doesn't count", "K5", prompt_cache_retention="24h"),
    _counts_as_absent("service_tier doesn't count", "K5", service_tier="flex"),
    one_key(
        "encoding_format doesn't count",
        "K5",
        asks("embedding", {"input": "a", "encoding_format": "base64"}),
        asks("embedding", {"input": "a", "encoding_format": "float"}),
    ),
    _counts_as_absent("a cache control in the body doesn't count", "C3", cache={"ttl": 5}),
    one_key(
        "a trace id doesn't count",
        "K3",
        {**_chat(), "headers": [["traceparent", "00-1"], ["x-request-id", "1"]]},
        _chat(),
    ),
    one_key("a client's name doesn't count", "K3", {**_chat(), "headers": [["user-agent", "openai/1"]]}, _chat()),
    one_key(
        "controls about time don't split the key",
        "C1",
        {**_chat(), "headers": [["cache-control", "max-age=60"]]},
        _chat(),
    ),
    one_key(
        "no-cache asks for the same key, anew", "C1", {**_chat(), "headers": [["cache-control", "no-cache"]]}, _chat()
    ),
    one_key("a ttl in the query string doesn't count", "C2", {**_chat(), "query": "foretold-ttl=60"}, _chat()),
    one_key(
        "a control leaves the rest of a query string as it was",
        "C2",
        {**_chat(), "query": "b=1&foretold-ttl=60&a=%20"},
        {**_chat(), "query": "b=1&a=%20"},
    ),
    one_key("tags don't split the key", "C2", {**_chat(), "headers": [["foretold-tags", "a b"]]}, _chat()),
    one_key(
        "sample 0 is the sample of those who ask for none",
        "K11",
        {**_chat(), "headers": [["foretold-sample", "0"]]},
        _chat(),
    ),
    two_keys("sample 1 is another draw", "K11", {**_chat(), "headers": [["foretold-sample", "1"]]}, _chat()),
    one_key(
        "a credential means the same in either header",
        "N2",
        {**_chat(), "headers": [["authorization", "Bearer k"]]},
        {**_chat(), "headers": [["x-api-key", "k"]]},
    ),
]

_INPUTS_AS_THEY_ARE = [
    two_keys(
        f"{name} is an input of {operation}",
        "K5",
        asks(operation, {"x": 1, name: here}),
        asks(operation, {"x": 1, name: there}),
    )
    for operation in ("predict", "json /a", "infer")
    for name, here, there in [
        ("user", "a", "b"),
        ("stream", True, False),
        ("cache", {"ttl": 1}, {"ttl": 2}),
        ("metadata", {}, None),
    ]
] + [
    two_keys("a null is not absent for predict", "K6", asks("predict", {"x": None}), asks("predict", {})),
    two_keys(
        "a stop text is not a list for predict", "K6", asks("predict", {"stop": "x"}), asks("predict", {"stop": ["x"]})
    ),
    two_keys("n: 1 counts for a json route", "K6", asks("json /a", {"n": 1}), asks("json /a", {})),
    two_keys(
        "a model in a json route's body counts",
        "K5",
        asks("json /a", {"model": "a"}, model=""),
        asks("json /a", {"model": "b"}, model=""),
    ),
    one_key(
        "member order doesn't count for predict",
        "K5",
        asks("predict", '{"a":1,"b":2}'),
        asks("predict", '{"b":2,"a":1}'),
    ),
]

_CHILDREN = [
    two_keys(
        "a namespace asked for is another's", "C2", {**_chat(), "headers": [["foretold-namespace", "a"]]}, _chat()
    ),
    one_key(
        "a namespace in the query string is that of the header",
        "C2",
        {**_chat(), "headers": [["foretold-namespace", "a"]]},
        {**_chat(), "query": "foretold-namespace=a"},
    ),
    one_key(
        "a label means the same by whatever name",
        "C3",
        {**_chat(), "headers": [["foretold-namespace", "a"]]},
        {**_chat(), "headers": [["cf-aig-cache-key", "a"]]},
    ),
    one_key(
        "a label in the body means the same",
        "C3",
        {**_chat(), "headers": [["helicone-cache-seed", "a"]]},
        _chat(cache={"namespace": "a"}),
    ),
    two_keys(
        "labels nest in the order given",
        "N1",
        {**_chat(), "headers": [["foretold-namespace", "a"], ["x-bf-cache-key", "b"]]},
        {**_chat(), "headers": [["foretold-namespace", "b"], ["x-bf-cache-key", "a"]]},
    ),
    two_keys(
        "two labels are not one with a line feed between",
        "N1",
        {**_chat(), "headers": [["foretold-namespace", "a"], ["x-bf-cache-key", "b"]]},
        {**_chat(), "headers": [["foretold-namespace", "a b"]]},
    ),
    one_key(
        "ignored members don't count among those who ignore them",
        "C3",
        {**_chat(seed=1), "headers": [["helicone-cache-ignore-keys", "seed"]]},
        {**_chat(seed=2), "headers": [["Helicone-Cache-Ignore-Keys", "seed"]]},
    ),
    one_key(
        "the order of ignored names doesn't count",
        "C3",
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "seed,top_p"]]},
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "top_p, seed"]]},
    ),
    one_key(
        "ignored names may come on two lines",
        "C3",
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "top_p,seed"]]},
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "top_p"], ["helicone-cache-ignore-keys", "seed"]]},
    ),
    two_keys(
        "who ignores a member doesn't share with who doesn't",
        "C3",
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "seed"]]},
        _chat(),
    ),
    two_keys(
        "who ignores more doesn't share with who ignores less",
        "C3",
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "seed"]]},
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "seed,top_p"]]},
    ),
    two_keys(
        "messages can't be ignored",
        "C3",
        {**_chat(), "headers": [["helicone-cache-ignore-keys", "messages"]]},
        {**_chat(messages=[]), "headers": [["helicone-cache-ignore-keys", "messages"]]},
    ),
]

_EMBEDDINGS = [
    one_key(
        "a text and a list of that text are one query",
        "P5",
        asks("embedding", {"input": "a"}),
        asks("embedding", {"input": ["a"]}),
    ),
    one_key(
        "tokens and a list of these tokens are one query",
        "P5",
        asks("embedding", {"input": [1, 2]}),
        asks("embedding", {"input": [[1, 2]]}),
    ),
    two_keys(
        "tokens are not two texts", "P5", asks("embedding", {"input": [1, 2]}), asks("embedding", {"input": ["1", "2"]})
    ),
    two_keys(
        "the order of inputs is the order of queries",
        "P5",
        asks("embedding", {"input": ["a", "b"]}),
        asks("embedding", {"input": ["b", "a"]}),
    ),
]

FILES = {"lost-hits": _SPELLING + _DEFAULTS + _WHO_AND_HOW + _INPUTS_AS_THEY_ARE + _CHILDREN + _EMBEDDINGS}
