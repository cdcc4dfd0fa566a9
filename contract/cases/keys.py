"""From a query to its key, its headers and its name in a store (rules K1 to K4, K11, R4)."""

from typing import Any

import reference

from cases.writing import Vector, gives

_NAMESPACE = reference.tenant_namespace("local:")
_INPUT = reference.json_digest({"messages": [{"role": "user", "content": "Hello"}]})
_QUERY = {"namespace": _NAMESPACE, "operation": "chat", "model": "gpt-4o", "revision": "openai", "input": _INPUT}


def _key(name: str, rule: str, **changed: Any) -> Vector:
    query = {**_QUERY, **changed}
    full = {"sample": 0, "query": "", "headers": [], "form": "json", **query}
    return gives(name, rule, "key_of", {"query": query}, reference.key(**full))


_KEYS = [
    _key("a key is the digest of ten members, in order", "K1"),
    _key("another namespace has another key", "K1", namespace=reference.tenant_namespace("tenant:acme")),
    _key("another operation has another key", "K2", operation="completion"),
    _key("another model has another key", "K2", model="gpt-4o-mini"),
    _key("a model's name counts as it was sent, capitals and all", "K2", model="GPT-4o"),
    _key("another revision has another key", "K9", revision="openai-eu"),
    _key("a local model's revision is the digest of its manifest", "K9", revision=reference.sha256(b"manifest")),
    _key("an empty revision is a revision", "K9", revision=""),
    _key("another sample has another key", "K11", sample=1),
    _key("the last sample has its own key", "K11", sample=99),
    _key("a query string is part of the key as received", "K2", query="api-version=2024-10-21"),
    _key("another order of a query string is another key", "K2", query="b=1&a=2"),
    _key("an escaped query string is not unescaped", "K2", query="a=%41+b"),
    _key("a keyed header is part of the key", "K3", headers=[["anthropic-version", "2023-06-01"]]),
    _key("two keyed headers are part of the key", "K3", headers=[["openai-beta", "a"], ["openai-project", "b"]]),
    _key("the form is part of the key", "K4", form="bytes"),
    _key("the form multipart is part of the key", "K4", form="multipart", operation="transcription"),
    _key("the form tensor is part of the key", "K4", form="tensor", operation="infer"),
    _key("another input has another key", "K4", input=reference.json_digest({})),
    _key("a declared route's path is its operation", "K2", operation="json /v1/rerank"),
    _key("a declared route that is read is another operation", "K2", operation="get /v1/rerank"),
    _key("the key of a model with a name of other scripts", "K1", model="\u6a21\u578b-\U0001f600"),
    _key("the key of a model whose name holds quotes", "K1", model='a","b'),
    _key("a comma in a model's name can't move into its revision", "K1", model="a,b", revision="c"),
    _key("a comma in a revision can't move into its model", "K1", model="a", revision="b,c"),
    _key("the end of a model's name can't move into its revision", "K1", model="ab", revision="c"),
    _key("the start of a revision can't move into its model", "K1", model="a", revision="bc"),
    _key("a model that is called as a revision has its own key", "K1", model="openai", revision="gpt-4o"),
]

_NAMES = [
    gives(
        "a record lies under its version, namespace and key",
        "R4",
        "record_name",
        {"namespace": "ab" * 32, "key": "cd" * 32},
        f"foretold/1/{'ab' * 32}/{'cd' * 32}",
    ),
    gives(
        "a record's name is made of its parts as they are",
        "R4",
        "record_name",
        {"namespace": "n", "key": "k"},
        "foretold/1/n/k",
    ),
]


def _headers(name: str, operation: str, headers: list[list[str]], out: list[list[str]], **rest: Any) -> Vector:
    return gives(name, "K3", "keyed_headers", {"operation": operation, "headers": headers, **rest}, out)


_HEADERS = [
    _headers("no header, no keyed header", "chat", [], []),
    _headers(
        "names are made small", "messages", [["Anthropic-Version", "2023-06-01"]], [["anthropic-version", "2023-06-01"]]
    ),
    _headers(
        "all five keyed headers count, sorted",
        "chat",
        [
            ["OpenAI-Project", "p"],
            ["OpenAI-Organization", "o"],
            ["OpenAI-Beta", "b"],
            ["anthropic-version", "v"],
            ["anthropic-beta", "a"],
        ],
        [
            ["anthropic-beta", "a"],
            ["anthropic-version", "v"],
            ["openai-beta", "b"],
            ["openai-organization", "o"],
            ["openai-project", "p"],
        ],
    ),
    _headers(
        "inert headers don't count",
        "chat",
        [
            ["traceparent", "1"],
            ["tracestate", "1"],
            ["User-Agent", "1"],
            ["X-Request-Id", "1"],
            ["Idempotency-Key", "1"],
        ],
        [],
    ),
    _headers(
        "content type, accept and credentials don't count",
        "chat",
        [["Content-Type", "application/json"], ["Accept", "*/*"], ["Authorization", "Bearer a"], ["x-api-key", "b"]],
        [],
    ),
    _headers("a header nobody named doesn't count", "chat", [["x-custom", "1"], ["cookie", "a=b"]], []),
    _headers("accept-language doesn't count for a chat", "chat", [["Accept-Language", "de"]], []),
    _headers(
        "accept-language counts for a json route",
        "json /v1/rerank",
        [["Accept-Language", "de"]],
        [["accept-language", "de"]],
    ),
    _headers(
        "accept-language counts for a get route",
        "get /v1/models",
        [["Accept-Language", "fr"]],
        [["accept-language", "fr"]],
    ),
    _headers("an operation that only starts as a route's is none", "jsonish", [["Accept-Language", "de"]], []),
    _headers("a route may add a header", "chat", [["X-Region", "eu"]], [["x-region", "eu"]], also=["x-region"]),
    _headers(
        "a route may name its header in capitals", "chat", [["x-region", "eu"]], [["x-region", "eu"]], also=["X-Region"]
    ),
    _headers(
        "lines of one name are joined in their order",
        "messages",
        [["anthropic-beta", "b"], ["Anthropic-Beta", "a"]],
        [["anthropic-beta", "b, a"]],
    ),
    _headers(
        "spaces and tabs around a value don't count",
        "messages",
        [["anthropic-beta", " \tx y\t "]],
        [["anthropic-beta", "x y"]],
    ),
    _headers(
        "other white space around a value counts",
        "messages",
        [["anthropic-beta", "\xa0x\x85"]],
        [["anthropic-beta", "\xa0x\x85"]],
    ),
    _headers("an empty value counts", "messages", [["anthropic-beta", ""]], [["anthropic-beta", ""]]),
    _headers(
        "a value's capitals count", "messages", [["anthropic-beta", "Tools-2024"]], [["anthropic-beta", "Tools-2024"]]
    ),
]

FILES = {"keys": _KEYS + _NAMES, "headers": _HEADERS}
