"""Tensor requests (rule K10), and which queries always pass (rule K12)."""

from typing import Any

import reference

from cases.writing import Vector, gives, json_text, one_key, two_keys

_FLOATS = {"hex": "0000803f000000400000404000008040"}
_BYTES = bytes.fromhex(_FLOATS["hex"])


def _tensor(
    name: str = "x", datatype: str = "FP32", shape: Any = (2, 2), content: Any = _FLOATS, **rest: Any
) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape), "content": content, **rest}


def _infer(*inputs: dict[str, Any], outputs: Any = (), **rest: Any) -> dict[str, Any]:
    return {
        "operation": "infer",
        "form": "tensor",
        "model": "m",
        "inputs": list(inputs),
        "outputs": list(outputs),
        **rest,
    }


def _digest(name: str, inputs: Any, outputs: Any, parameters: Any, counts: Any) -> Vector:
    return gives(
        name,
        "K10",
        "tensor_input",
        {"inputs": inputs, "outputs": outputs, "parameters": parameters},
        reference.json_digest(counts),
    )


_SHA = reference.sha256(_BYTES)
_TENSORS = [
    _digest(
        "a tensor counts by name, type, shape, digest and parameters",
        [_tensor()],
        [],
        {},
        [[["x", "FP32", [2, 2], _SHA, {}]], [], {}],
    ),
    _digest(
        "inputs and outputs are sorted by name",
        [_tensor("b"), _tensor("a")],
        [{"name": "z"}, {"name": "y"}],
        {},
        [[["a", "FP32", [2, 2], _SHA, {}], ["b", "FP32", [2, 2], _SHA, {}]], [["y", {}], ["z", {}]], {}],
    ),
    _digest(
        "names are sorted by UTF-16 units",
        [_tensor("\uff5e"), _tensor("\U0001f600")],
        [],
        {},
        [[["\U0001f600", "FP32", [2, 2], _SHA, {}], ["\uff5e", "FP32", [2, 2], _SHA, {}]], [], {}],
    ),
    _digest(
        "parameters count, but for those that say how bytes travel",
        [_tensor(parameters={"binary_data_size": 16, "scale": 2})],
        [{"name": "y", "parameters": {"binary_data": True, "classification": 3}}],
        {"binary_data_output": True, "priority": 1},
        [[["x", "FP32", [2, 2], _SHA, {"scale": 2}]], [["y", {"classification": 3}]], {"priority": 1}],
    ),
    two_keys(
        "one row of four is not two rows of two", "K10", _infer(_tensor(shape=(1, 4))), _infer(_tensor(shape=(2, 2)))
    ),
    two_keys(
        "four in a row are not one row of four", "K10", _infer(_tensor(shape=(4,))), _infer(_tensor(shape=(1, 4)))
    ),
    two_keys(
        "equal bytes of two types have two keys",
        "K10",
        _infer(_tensor(datatype="INT32")),
        _infer(_tensor(datatype="FP32")),
    ),
    two_keys(
        "asking for one output is not asking for two",
        "K10",
        _infer(_tensor(), outputs=[{"name": "a"}]),
        _infer(_tensor(), outputs=[{"name": "a"}, {"name": "b"}]),
    ),
    two_keys(
        "asking for all outputs is not asking for one",
        "K10",
        _infer(_tensor()),
        _infer(_tensor(), outputs=[{"name": "a"}]),
    ),
    two_keys(
        "bytes can't move from one input to the next",
        "K10",
        _infer(_tensor("a", "UINT8", (2,), {"utf8": "ab"}), _tensor("b", "UINT8", (1,), {"utf8": "c"})),
        _infer(_tensor("a", "UINT8", (1,), {"utf8": "a"}), _tensor("b", "UINT8", (2,), {"utf8": "bc"})),
    ),
    two_keys(
        "swapped contents have another key",
        "K10",
        _infer(_tensor("a", "UINT8", (1,), {"utf8": "1"}), _tensor("b", "UINT8", (1,), {"utf8": "2"})),
        _infer(_tensor("a", "UINT8", (1,), {"utf8": "2"}), _tensor("b", "UINT8", (1,), {"utf8": "1"})),
    ),
    two_keys("an input's name counts", "K10", _infer(_tensor("a")), _infer(_tensor("b"))),
    two_keys(
        "a request's parameters count",
        "K10",
        _infer(_tensor(), parameters={"seed": 1}),
        _infer(_tensor(), parameters={"seed": 2}),
    ),
    two_keys("an input's parameters count", "K10", _infer(_tensor(parameters={"a": 1})), _infer(_tensor())),
    two_keys(
        "how many classes are asked for counts",
        "K10",
        _infer(_tensor(), outputs=[{"name": "y", "parameters": {"classification": 1}}]),
        _infer(_tensor(), outputs=[{"name": "y", "parameters": {"classification": 2}}]),
    ),
    one_key(
        "the order of inputs doesn't count",
        "K10",
        _infer(_tensor("a"), _tensor("b")),
        _infer(_tensor("b"), _tensor("a")),
    ),
    one_key(
        "the order of outputs doesn't count",
        "K10",
        _infer(_tensor(), outputs=[{"name": "a"}, {"name": "b"}]),
        _infer(_tensor(), outputs=[{"name": "b"}, {"name": "a"}]),
    ),
    one_key(
        "how bytes travel doesn't count", "K10", _infer(_tensor(parameters={"binary_data_size": 16})), _infer(_tensor())
    ),
]


def _passes(name: str, operation: str, body: Any, why: str | None) -> Vector:
    return gives(name, "K12", "must_pass", {"operation": operation, "body": json_text(body)}, why)


_STATE = "server-state"
_REMOTE = "remote-tool"
_FUNCTION = {"type": "function", "function": {"name": "a"}}
_ALWAYS_PASS = [
    _passes("a plain chat may be cached", "chat", {"messages": []}, None),
    _passes("store: true passes", "chat", {"store": True}, _STATE),
    _passes("store: false may be cached", "chat", {"store": False}, None),
    _passes("store: null may be cached", "chat", {"store": None}, None),
    _passes("a responses call that says nothing of storing may be cached", "responses", {"input": "x"}, None),
    _passes("a store that is neither true nor false passes", "chat", {"store": 0}, _STATE),
    _passes("background work passes", "responses", {"background": True}, _STATE),
    _passes("background: false may be cached", "responses", {"background": False}, None),
    _passes("a previous response passes", "responses", {"previous_response_id": "resp_1"}, _STATE),
    _passes("an empty previous response passes", "responses", {"previous_response_id": ""}, _STATE),
    _passes("a conversation passes", "responses", {"conversation": "conv_1"}, _STATE),
    _passes("a conversation given as an object passes", "responses", {"conversation": {"id": "conv_1"}}, _STATE),
    _passes("a container passes", "messages", {"container": "c"}, _STATE),
    _passes("a stored prompt passes", "responses", {"prompt": {"id": "pmpt_1"}}, _STATE),
    _passes("a completion's prompt is no stored one", "completion", {"prompt": {"id": "pmpt_1"}}, None),
    _passes("an item reference passes", "responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, _STATE),
    _passes("an item of an id alone is a reference and passes", "responses", {"input": [{"id": "msg_1"}]}, _STATE),
    _passes(
        "an item of type null without a role is a reference and passes",
        "responses",
        {"input": [{"type": None, "id": "msg_1"}]},
        _STATE,
    ),
    _passes("a message without a type may be cached", "responses", {"input": [{"role": "user", "content": "x"}]}, None),
    _passes(
        "a function call and its output may be cached",
        "responses",
        {"input": [{"type": "function_call", "call_id": "a"}, {"type": "function_call_output", "call_id": "a"}]},
        None,
    ),
    _passes("an item reference means nothing to a chat", "chat", {"input": [{"type": "item_reference"}]}, None),
    _passes("web_search_options pass", "chat", {"web_search_options": {}}, _REMOTE),
    _passes("web_search_options: null may be cached", "chat", {"web_search_options": None}, None),
    _passes("mcp_servers pass", "messages", {"mcp_servers": [{"url": "https://a.example"}]}, _REMOTE),
    *(
        _passes(f"the tool {kind} passes", "responses", {"tools": [{"type": kind}]}, _REMOTE)
        for kind in (
            "web_search",
            "web_search_preview",
            "file_search",
            "code_interpreter",
            "computer_use_preview",
            "image_generation",
            "mcp",
        )
    ),
    _passes("a tool of a type nobody knows passes", "chat", {"tools": [{"type": "teleport"}]}, _REMOTE),
    _passes("one remote tool among functions passes", "chat", {"tools": [_FUNCTION, {"type": "mcp"}]}, _REMOTE),
    _passes("a tool of type null passes", "chat", {"tools": [{"type": None}]}, _REMOTE),
    _passes("functions may be cached", "chat", {"tools": [_FUNCTION]}, None),
    _passes("custom tools may be cached", "chat", {"tools": [{"type": "custom", "name": "a"}]}, None),
    _passes(
        "a tool without a type is custom and may be cached",
        "messages",
        {"tools": [{"name": "a", "input_schema": {}}]},
        None,
    ),
    _passes("state is told before tools", "responses", {"store": True, "tools": [{"type": "mcp"}]}, _STATE),
    _passes("store is an input of predict", "predict", {"store": True}, None),
    _passes("tools are an input of a json route", "json /a", {"tools": [{"type": "mcp"}]}, None),
    _passes("a body that is no object has no state", "chat", [{"store": True}], None),
]

FILES = {"tensors": _TENSORS, "always-pass": _ALWAYS_PASS}
