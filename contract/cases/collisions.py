"""What must never share a key: everything counts that no rule takes out (faults known from other caches)."""

from typing import Any

from cases.writing import Vector, asks, json_text, one_key, two_keys, utf8

_ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Name a river."}]}
_TOOL = {"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}}}}


def _chat(**members: Any) -> dict[str, Any]:
    return asks("chat", {**_ASKED, **members})


def _says(content: Any) -> dict[str, Any]:
    return asks("chat", {"model": "gpt-4o", "messages": [{"role": "user", "content": content}]})


def _differ(name: str, rule: str, **members: tuple[Any, Any]) -> Vector:
    """Two chats that differ in the members given, each as (here, there)."""
    (here, there) = ({n: pair[i] for n, pair in members.items()} for i in (0, 1))
    return two_keys(name, rule, _chat(**here), _chat(**there))


def _image(url: str, **rest: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url, **rest}}]


_EVERY_FIELD = [
    two_keys("any change of the question changes the key", "K5", _chat(), _says("Name a lake.")),
    two_keys(
        "a change of a role changes the key",
        "K5",
        _chat(),
        _chat(messages=[{"role": "system", "content": "Name a river."}]),
    ),
    _differ(
        "a change of a name in a message changes the key",
        "K5",
        messages=([{"role": "user", "name": "a", "content": "x"}], [{"role": "user", "name": "b", "content": "x"}]),
    ),
    _differ(
        "a system message changes the key",
        "K5",
        messages=(
            [{"role": "user", "content": "x"}],
            [{"role": "system", "content": "y"}, {"role": "user", "content": "x"}],
        ),
    ),
    _differ("temperature changes the key", "K5", temperature=(0, 1)),
    _differ("temperature 0.7 and 0.70001 have two keys", "K5", temperature=(0.7, 0.70001)),
    _differ("top_p changes the key", "K5", top_p=(0.9, 1)),
    _differ("seed changes the key", "K5", seed=(1, 2)),
    _differ("max_tokens changes the key", "K5", max_tokens=(10, 20)),
    _differ("max_completion_tokens is not max_tokens", "K5", max_tokens=(10, None), max_completion_tokens=(None, 10)),
    _differ("presence_penalty changes the key", "K5", presence_penalty=(0, 0.5)),
    _differ("frequency_penalty changes the key", "K5", frequency_penalty=(0, 0.5)),
    _differ("logit_bias changes the key", "K5", logit_bias=({"50256": -100}, {"50256": 100})),
    _differ("n: 2 is not n: 1", "K6", n=(1, 2)),
    _differ("logprobs: true is not absent", "K6", logprobs=(True, None)),
    _differ("top_logprobs 2 and 5 have two keys", "K5", logprobs=(True, True), top_logprobs=(2, 5)),
    _differ("a provider's own top_k changes the key", "K5", top_k=(1, 40)),
    _differ("a field nobody has heard of changes the key", "K5", zzz_new_in_2031=(1, 2)),
    _differ("a field nobody has heard of is in the key even if it is false", "K5", zzz_new_in_2031=(False, None)),
    _differ("reasoning_effort changes the key", "K5", reasoning_effort=("low", "high")),
    _differ(
        "thinking changes the key", "K5", thinking=({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"})
    ),
    _differ("parallel_tool_calls changes the key", "K5", parallel_tool_calls=(True, False)),
    _differ("tool_choice changes the key", "K5", tools=([_TOOL], [_TOOL]), tool_choice=("auto", "required")),
    _differ(
        "the order of tools changes the key",
        "K6",
        tools=([_TOOL, {"type": "custom", "name": "b"}], [{"type": "custom", "name": "b"}, _TOOL]),
    ),
    _differ(
        "a tool's description changes the key",
        "K5",
        tools=(
            [{"type": "function", "function": {"name": "get", "description": "a"}}],
            [{"type": "function", "function": {"name": "get", "description": "b"}}],
        ),
    ),
    _differ("response_format changes the key", "K5", response_format=({"type": "text"}, {"type": "json_object"})),
    _differ(
        "the schema inside response_format changes the key",
        "K5",
        response_format=(
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array"}}},
        ),
    ),
    _differ(
        "the order of a schema's required names changes the key",
        "K6",
        response_format=(
            {"type": "json_schema", "json_schema": {"schema": {"required": ["a", "b"]}}},
            {"type": "json_schema", "json_schema": {"schema": {"required": ["b", "a"]}}},
        ),
    ),
    _differ("modalities and audio change the key", "K5", modalities=(["text"], ["text", "audio"])),
    _differ("cache that is no object is a field like any other", "K5", cache=("a", "b")),
    _differ(
        "a member called as a control counts where it is nested",
        "K5",
        extra=({"user": "a", "stream": True}, {"user": "b", "stream": False}),
    ),
    _differ("null inside a member is not absent", "K6", extra=({"a": None}, {})),
    _differ("n: 1 inside a member is not absent", "K6", extra=({"n": 1}, {})),
    _differ("stop inside a member stays as it is", "K6", extra=({"stop": "x"}, {"stop": ["x"]})),
    _differ("true is not 1", "K5", zzz=(True, 1)),
    _differ("false is not 0", "K5", zzz=(False, 0)),
    _differ("n: true is not n: 1", "K6", n=(True, 1)),
    _differ("logprobs: 0 is not logprobs: false", "K6", logprobs=(0, False)),
    _differ("a number is not its text", "K5", seed=(1, "1")),
    _differ("an empty text is not absent", "K5", zzz=("", None)),
]

_NEW_ENDPOINTS = [
    two_keys(
        f"{what} changes the key of a responses call without its being named anywhere",
        "K5",
        asks("responses", {"model": "m", "input": "x", **here}),
        asks("responses", {"model": "m", "input": "x", **there}),
    )
    for what, here, there in [
        ("instructions", {"instructions": "a"}, {"instructions": "b"}),
        ("reasoning", {"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "high"}}),
        ("text.verbosity", {"text": {"verbosity": "low"}}, {"text": {"verbosity": "high"}}),
        ("include", {"include": []}, {"include": ["reasoning.encrypted_content"]}),
        ("truncation", {"truncation": "auto"}, {"truncation": "disabled"}),
        ("max_output_tokens", {"max_output_tokens": 5}, {"max_output_tokens": 6}),
    ]
] + [
    two_keys(
        "system changes the key of a messages call",
        "K5",
        asks("messages", {"system": "a", "messages": []}),
        asks("messages", {"system": "b", "messages": []}),
    ),
    two_keys(
        "suffix changes the key of a completion",
        "K5",
        asks("completion", {"prompt": "a", "suffix": "x"}),
        asks("completion", {"prompt": "a"}),
    ),
    two_keys(
        "dimensions change the key of an embedding",
        "K5",
        asks("embedding", {"input": "a", "dimensions": 256}),
        asks("embedding", {"input": "a", "dimensions": 512}),
    ),
    two_keys(
        "size changes the key of an image",
        "K5",
        asks("image", {"prompt": "a", "size": "256x256"}),
        asks("image", {"prompt": "a", "size": "512x512"}),
    ),
]

_MEDIA = [
    two_keys(
        "two image addresses have two keys",
        "K5",
        _says(_image("https://a.example/1.png")),
        _says(_image("https://a.example/2.png")),
    ),
    two_keys(
        "two images given as data have two keys",
        "K5",
        _says(_image("data:image/png;base64,iVBORw0KAAAA")),
        _says(_image("data:image/png;base64,iVBORw0KAAAB")),
    ),
    two_keys(
        "an image's detail changes the key",
        "K5",
        _says(_image("https://a.example/1.png", detail="low")),
        _says(_image("https://a.example/1.png", detail="high")),
    ),
    two_keys(
        "an image more changes the key",
        "K5",
        _says(_image("https://a.example/1.png")),
        _says(_image("https://a.example/1.png") * 2),
    ),
    two_keys(
        "an image is not its placeholder",
        "K5",
        _says(_image("data:image/png;base64,AA==")),
        _says("What is this?<image>"),
    ),
    two_keys(
        "the order of an image and its question changes the key",
        "K6",
        _says(_image("https://a.example/1.png")),
        _says(_image("https://a.example/1.png")[::-1]),
    ),
    two_keys(
        "two recordings have two keys",
        "K5",
        _says([{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]),
        _says([{"type": "input_audio", "input_audio": {"data": "UklGRw==", "format": "wav"}}]),
    ),
]

_FAR_APART = "Rivers and lakes. " * 400
_PLACES = [
    two_keys(
        "another model has another key, though all else is equal",
        "K2",
        _chat(model="gpt-4o"),
        _chat(model="gpt-4o-mini"),
    ),
    two_keys(
        "a fine-tuned model is not the model it was made from", "K2", _chat(model="llama:a"), _chat(model="llama:b")
    ),
    two_keys(
        "one name at two upstreams has two keys",
        "K9",
        {**_chat(), "revision": "openai"},
        {**_chat(), "revision": "azure"},
    ),
    two_keys(
        "a model's name and a namespace's label are not one field",
        "N1",
        {**_chat(model="a"), "headers": [["foretold-namespace", "b"]]},
        {**_chat(model="b"), "headers": [["foretold-namespace", "a"]]},
    ),
    two_keys(
        "a model in the path of predict counts",
        "K2",
        asks("predict", {"prompt": "a"}, model="m1"),
        asks("predict", {"prompt": "a"}, model="m2"),
    ),
    two_keys(
        "two paths of declared routes have two keys",
        "K2",
        asks("json /v1/rerank", {"q": 1}),
        asks("json /v2/rerank", {"q": 1}),
    ),
    two_keys("a query string counts", "K2", asks("json /a", {}, query="v=1"), asks("json /a", {}, query="v=2")),
    two_keys("reading and posting are two operations", "K2", asks("json /a", {}), asks("get /a", {})),
    two_keys("one body asked of two operations has two keys", "K2", asks("chat", _ASKED), asks("responses", _ASKED)),
    two_keys(
        "long texts that differ in their last word have two keys",
        "K5",
        _says(_FAR_APART + "one"),
        _says(_FAR_APART + "two"),
    ),
    two_keys(
        "a text that spells a parameter is not that parameter",
        "K5",
        _says("Name a river. temperature: 0"),
        _chat(temperature=0),
    ),
    two_keys("a text that spells JSON is not that JSON", "K5", _says('{"a":1}'), _says({"a": 1})),
    two_keys(
        "a message that spells the next message is not two messages",
        "K5",
        _says('x"},{"role":"user","content":"y'),
        _chat(messages=[{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]),
    ),
    two_keys("two samples have two keys", "K11", {**_chat(), "sample": 0}, {**_chat(), "sample": 1}),
    two_keys("spellings of a letter are not made one", "K6", _says("caf\xe9"), _says("cafe\u0301")),
    two_keys("white space in a text counts", "K5", _says("Name a river."), _says("Name a river. ")),
    two_keys(
        "an openai-organization changes the key",
        "K3",
        {**_chat(), "headers": [["OpenAI-Organization", "a"]]},
        {**_chat(), "headers": [["OpenAI-Organization", "b"]]},
    ),
    two_keys(
        "an anthropic-beta changes the key",
        "K3",
        asks("messages", _ASKED),
        asks("messages", _ASKED, headers=[["anthropic-beta", "x"]]),
    ),
]

_TENANTS = [
    two_keys(
        "two API keys' tenants have two keys",
        "N1",
        {**_chat(), "tenants": {"sk-a": "a", "sk-b": "b"}, "headers": [["authorization", "Bearer sk-a"]]},
        {**_chat(), "tenants": {"sk-a": "a", "sk-b": "b"}, "headers": [["authorization", "Bearer sk-b"]]},
    ),
    two_keys(
        "two credentials have two keys where no API keys are set",
        "N1",
        {**_chat(), "headers": [["authorization", "Bearer a"]]},
        {**_chat(), "headers": [["authorization", "Bearer b"]]},
    ),
    two_keys(
        "a caller with a credential is not one without", "N1", {**_chat(), "headers": [["x-api-key", "a"]]}, _chat()
    ),
    two_keys(
        "a tenant's name is not a credential's text",
        "N1",
        {**_chat(), "tenants": {"sk": "a"}, "headers": [["x-api-key", "sk"]]},
        {**_chat(), "headers": [["x-api-key", "a"]]},
    ),
    two_keys(
        "a shared route is not a tenant of its name",
        "N1",
        {**_chat(), "shared_route": "a"},
        {**_chat(), "tenants": {"sk": "a"}, "headers": [["x-api-key", "sk"]]},
    ),
    one_key(
        "two API keys of one tenant share",
        "N1",
        {**_chat(), "tenants": {"sk-1": "a", "sk-2": "a"}, "headers": [["authorization", "Bearer sk-1"]]},
        {**_chat(), "tenants": {"sk-1": "a", "sk-2": "a"}, "headers": [["x-api-key", "sk-2"]]},
    ),
    one_key(
        "all callers of a shared route share",
        "N1",
        {
            **_chat(),
            "shared_route": "r",
            "tenants": {"sk-a": "a", "sk-b": "b"},
            "headers": [["authorization", "Bearer sk-a"]],
        },
        {
            **_chat(),
            "shared_route": "r",
            "tenants": {"sk-a": "a", "sk-b": "b"},
            "headers": [["authorization", "Bearer sk-b"]],
        },
    ),
]


def _upload(*parts: list[Any], **rest: Any) -> dict[str, Any]:
    return {"operation": "transcription", "form": "multipart", "model": "whisper-1", "parts": list(parts), **rest}


_WAV, _OTHER_WAV = {"hex": "524946460400"}, {"hex": "524946460500"}
_UPLOADS = [
    two_keys(
        "two recordings that are uploaded have two keys",
        "K10",
        _upload(["file", "audio/wav", _WAV]),
        _upload(["file", "audio/wav", _OTHER_WAV]),
    ),
    two_keys(
        "a part's content type counts",
        "K10",
        _upload(["file", "audio/wav", _WAV]),
        _upload(["file", "audio/mpeg", _WAV]),
    ),
    two_keys(
        "a part's name counts", "K10", _upload(["file", "audio/wav", _WAV]), _upload(["audio", "audio/wav", _WAV])
    ),
    two_keys(
        "the order of parts counts",
        "K10",
        _upload(["a", "text/plain", utf8("1")], ["b", "text/plain", utf8("2")]),
        _upload(["b", "text/plain", utf8("2")], ["a", "text/plain", utf8("1")]),
    ),
    two_keys(
        "content can't move from one part to the next",
        "K10",
        _upload(["a", "", utf8("ab")], ["b", "", utf8("c")]),
        _upload(["a", "", utf8("a")], ["b", "", utf8("bc")]),
    ),
    one_key("equal parts share", "K10", _upload(["file", "audio/wav", _WAV]), _upload(["file", "audio/wav", _WAV])),
    two_keys(
        "JSON that is asked as bytes is another form",
        "K4",
        {"operation": "json /a", "form": "bytes", "body": json_text({})},
        {"operation": "json /a", "form": "json", "body": json_text({})},
    ),
]

FILES = {"collisions": _EVERY_FIELD + _NEW_ENDPOINTS + _MEDIA + _PLACES + _TENANTS + _UPLOADS}
