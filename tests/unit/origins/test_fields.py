"""The closed list of what a local engine may be asked."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold.errors import Malformed, Refused
from foretold.models.manifest import SMOLLM2
from foretold.origins.fields import engine_body

WITH_TOOLS = replace(SMOLLM2, capabilities=SMOLLM2.capabilities | {"tools"})
USER = {"role": "user", "content": "hi"}
DEEP = "x"
for _ in range(200):
    DEEP = [DEEP]


def chat(manifest=SMOLLM2, **members):
    return engine_body("chat", orjson.dumps({"messages": [USER], **members}), manifest)


def completion(**members):
    return engine_body("completion", orjson.dumps({"prompt": "hi", **members}), SMOLLM2)


def refusal(ask, **members) -> Refused:
    with pytest.raises(Refused) as refused:
        ask(**members)
    assert refused.value.status_here == 400
    return refused.value


# What the engine itself takes beyond our list; a negative n_discard once wrote out of bounds (CVE-2026-21869).
UNKNOWN = {
    "n_discard": -50,
    "n_probs": 10**9,
    "id_slot": 999_999,
    "samplers": ["x"] * 1000,
    "json_schema": {"type": "object"},
    "n_keep": -1,
    "n_predict": -1,
    "n_indent": 2**31,
    "cache_prompt": True,
    "return_progress": False,
    "return_tokens": True,
    "lora": [{"id": 0, "scale": 1}],
    "ignore_eos": True,
    "mirostat": 2,
    "dry_multiplier": 1e9,
    "typical_p": 0.5,
    "dynatemp_range": 5,
    "xtc_probability": 1,
    "t_max_predict_ms": -1,
    "min_keep": 2**31,
    "chat_template": "{{ 1 }}",
    "chat_template_kwargs": {},
    "reasoning_format": "none",
    "add_generation_prompt": False,
    "timings_per_token": True,
    "post_sampling_probs": True,
    "response_fields": ["x"],
    "speculative.n_max": 10**6,
    "cache": {},
    "modalities": ["audio"],
    "prediction": {"type": "content", "content": "x"},
    "web_search_options": {},
}

BAD_IN_BOTH = {
    "max_tokens": [0, -1, 1_000_001, 2**63, 1.5, "5", True, [], {}, DEEP],
    "temperature": [-0.1, 5.1, 1e308, "1", True, [], {}],
    "top_p": [-0.1, 1.1, "1", [], True],
    "top_k": [-2, -(2**31), 100_001, 2**63, 0.5, "40", []],
    "min_p": [-1, 2, "0"],
    "seed": [-2, 2**32, 2**63, 0.5, "1", True, []],
    "stop": ["", ["a"] * 17, ["x" * 257], "x" * 257, [""], [1], 1, {}, ["a"] * 200_000, DEEP],
    "presence_penalty": [-2.1, 2.1, "1", True],
    "frequency_penalty": [-2.1, 2.1, [], True],
    "repeat_penalty": [0, 0.4, 2.1, -1, "1"],
    "repetition_penalty": [0, 0.4, 2.1, -1, "1"],
    "logit_bias": [
        [],
        "x",
        1,
        {"-1": 1},
        {"a": 1},
        {"": 1},
        {"1e3": 1},
        {"99999999": 1},
        {"1": 101},
        {"1": -101},
        {"1": "x"},
        {"1": True},
        {"1": False},
        {"²": 1},
        {str(i): 1 for i in range(301)},
    ],
    "n": [0, 2, 1_000_000, -1, "1", True, 1.5],
}

BAD_IN_CHAT = {
    "messages": [[], {}, "hi", [None], ["hi"], [USER] * 1025, DEEP],
    "logprobs": [1, "yes", [], 0],
    "top_logprobs": [-1, 21, 2_000_000, "5", True, 1.5],
    "max_completion_tokens": [0, -1, 2**63, "5"],
    "response_format": [
        "json",
        [],
        {},
        {"type": "xml"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": []},
    ],
    "store": [True, 1, "no"],
}

BAD_IN_COMPLETION = {
    "prompt": ["", [], ["hi"], [1, 2], 1, {}],
    "logprobs": [-1, 21, 10**9, True, "5", 1.5],
    "echo": [True, 1, "x"],
    "best_of": [2, 0, "1"],
    "suffix": ["x", 1, []],
}


KNOWN = (*BAD_IN_BOTH, *BAD_IN_CHAT, *BAD_IN_COMPLETION, "tools", "tool_choice")
KEYWORDS = st.sampled_from(["type", "properties", "items", "required", "$ref", "minItems", "maxItems", "enum", "role"])
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | KEYWORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def each(table):
    return [
        pytest.param(name, value, id=f"{name}-{i}") for name, values in table.items() for i, value in enumerate(values)
    ]


@pytest.mark.parametrize(("name", "value"), UNKNOWN.items(), ids=UNKNOWN)
@pytest.mark.parametrize("ask", [chat, completion])
def test_what_is_not_known_is_refused_by_name(ask, name, value):
    refused = refusal(ask, **{name: value})

    assert (refused.code_here, refused.param) == ("unknown_field", name)
    assert "temperature" in str(refused)


@pytest.mark.parametrize(("name", "value"), each(BAD_IN_BOTH))
@pytest.mark.parametrize("ask", [chat, completion])
def test_what_is_out_of_range_is_refused_by_name(ask, name, value):
    refused = refusal(ask, **{name: value})

    assert (refused.code_here, refused.param) == ("bad_value", name)


@pytest.mark.parametrize(("name", "value"), each(BAD_IN_CHAT))
def test_what_is_out_of_range_for_a_chat_is_refused_by_name(name, value):
    refused = refusal(chat, **{"logprobs": True, name: value})

    assert refused.code_here == "bad_value"
    assert refused.param.startswith(name)


@pytest.mark.parametrize(("name", "value"), each(BAD_IN_COMPLETION))
def test_what_is_out_of_range_for_a_completion_is_refused_by_name(name, value):
    refused = refusal(completion, **{name: value})

    assert (refused.code_here, refused.param) == ("bad_value", name)


@pytest.mark.parametrize(
    "name", ["top_logprobs", "response_format", "messages", "max_completion_tokens", "tools", "store"]
)
def test_a_completion_does_not_know_what_only_chats_have(name):
    assert refusal(completion, **{name: 1}).code_here == "unknown_field"


@pytest.mark.parametrize("name", ["prompt", "echo", "suffix", "best_of"])
def test_a_chat_does_not_know_what_only_completions_have(name):
    assert refusal(chat, **{name: 1}).code_here == "unknown_field"


def test_a_refusal_never_repeats_a_text_it_was_sent():
    refused = refusal(chat, temperature="my private words")

    assert "private" not in str(refused)
    assert "a text of length 16" in str(refused)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'"x"', b'{"a": NaN}', b'{"temperature": 1e999}', b"\xff"])
def test_what_is_no_json_object_is_malformed(body):
    with pytest.raises(Malformed):
        engine_body("chat", body, SMOLLM2)


def test_a_chat_needs_messages():
    with pytest.raises(Refused, match="`messages` is missing"):
        engine_body("chat", b'{"messages": null}', SMOLLM2)


def test_a_completion_needs_a_prompt():
    with pytest.raises(Refused, match="`prompt` is missing"):
        engine_body("completion", b"{}", SMOLLM2)


def test_the_engine_is_always_asked_for_a_stream_with_progress_and_usage():
    asked = chat(stream=False, stream_options={"include_usage": False})

    assert asked["stream"] is True
    assert asked["return_progress"] is True
    assert asked["stream_options"] == {"include_usage": True}
    assert asked["cache_prompt"] is False


def test_nothing_else_goes_to_the_engine():
    inert = {
        "model": "m",
        "stream": True,
        "stream_options": {},
        "user": "u",
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "parallel_tool_calls": True,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
        "encoding_format": "float",
    }
    checked_only = {"n": 1, "store": False, "temperature": None, "tools": None, "n_discard": None}

    assert chat(**inert, **checked_only) == chat()
    assert completion(**inert, n=1, echo=False, best_of=1, suffix="") == completion()


def test_the_manifest_limits_an_answer_that_the_request_does_not_limit():
    assert chat()["max_tokens"] == SMOLLM2.max_tokens
    assert chat(max_tokens=7)["max_tokens"] == 7


def test_the_newer_name_of_the_limit_wins():
    asked = chat(max_tokens=7, max_completion_tokens=9)

    assert asked["max_tokens"] == 9
    assert "max_completion_tokens" not in asked


def test_values_in_range_go_on_as_they_are():
    sampling = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "min_p": 0.05,
        "seed": 2**32 - 1,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "repeat_penalty": 1.1,
        "logit_bias": {"50256": -100},
        "stop": ["a", "b"],
        "logprobs": True,
        "top_logprobs": 20,
    }

    asked = chat(**sampling)

    assert {name: asked[name] for name in sampling} == sampling


def test_a_whole_number_may_be_written_with_a_point():
    assert chat(max_tokens=5.0)["max_tokens"] == 5


def test_the_penalty_has_two_names_and_one_meaning():
    asked = chat(repetition_penalty=1.2)

    assert asked["repeat_penalty"] == 1.2
    assert "repetition_penalty" not in asked
    assert refusal(chat, repetition_penalty=1.2, repeat_penalty=1.1).param == "repetition_penalty"


def test_one_stop_is_a_list_of_one():
    assert chat(stop="x")["stop"] == ["x"]


def test_top_logprobs_need_logprobs():
    assert refusal(chat, top_logprobs=3).param == "top_logprobs"
    assert refusal(chat, top_logprobs=3, logprobs=False).param == "top_logprobs"


def test_text_is_no_format_to_hold_to():
    assert chat(response_format={"type": "text"}) == chat()


def test_more_text_than_a_slot_can_hold_is_refused_before_the_engine_reads_it():
    too_long = "x" * (SMOLLM2.context * 64 + 1)

    assert refusal(chat, messages=[{"role": "user", "content": too_long}]).code_here == "context_length_exceeded"
    assert refusal(completion, prompt=too_long).code_here == "context_length_exceeded"


@given(name=st.sampled_from(KNOWN), value=ANY_JSON, operation=st.sampled_from(["chat", "completion"]))
def test_any_value_is_either_taken_or_refused(name, value, operation):
    question = {"messages": [USER]} if operation == "chat" else {"prompt": "hi"}
    body = orjson.dumps(question | {name: value})

    with contextlib.suppress(Refused):
        assert engine_body(operation, body, WITH_TOOLS)["stream"] is True


@given(schema=ANY_JSON, message=ANY_JSON, tool=ANY_JSON)
def test_any_schema_message_or_tool_is_either_taken_or_refused(schema, message, tool):
    asked = {
        "messages": [message],
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
        "tools": [{"type": "function", "function": {"name": "x", "parameters": schema}}, tool],
    }

    for name in asked:
        with contextlib.suppress(Refused):
            engine_body("chat", orjson.dumps({"messages": [USER], name: asked[name]}), WITH_TOOLS)
