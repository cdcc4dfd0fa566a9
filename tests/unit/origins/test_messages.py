"""Messages and tools of a chat, as far as a local model takes them."""

from __future__ import annotations

import pytest

from foretold.errors import Refused
from tests.unit.origins.test_fields import USER, WITH_TOOLS, chat, refusal

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"role": "banana", "content": "x"}, "messages[0].role"),
        ({"role": "function", "content": "x"}, "messages[0].role"),
        ({"role": 1, "content": "x"}, "messages[0].role"),
        ({"role": [], "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "assistant"}, "messages[0].content"),
        ({"role": "user", "content": 1}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": 1}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": "x", "a": 1}]}, "messages[0].content[0].a"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": ["text"]}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}] * 257}, "messages[0].content"),
        ({"role": "user", "content": "x", "name": ""}, "messages[0].name"),
        ({"role": "user", "content": "x", "name": "n" * 65}, "messages[0].name"),
        ({"role": "user", "content": "x", "audio": {}}, "messages[0].audio"),
        ({"role": "tool", "content": "x", "tool_call_id": 1}, "messages[0].tool_call_id"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": []}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": "x"}, "messages[0].tool_calls"),
    ],
)
def test_a_bad_message_is_refused_by_its_place(message, place):
    assert refusal(chat, messages=[message]).param == place


def test_an_image_is_refused_in_words_a_person_understands():
    refused = refusal(chat, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])

    assert "'image_url', and this model reads only text" in str(refused)


def test_parts_of_text_become_one_text():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    assert chat(messages=[{"role": "user", "content": parts}])["messages"] == [{"role": "user", "content": "one\ntwo"}]


def test_a_developer_is_a_system_to_templates_that_know_none():
    assert chat(messages=[{"role": "developer", "content": "x"}])["messages"][0]["role"] == "system"


def test_an_answer_that_was_a_call_may_come_back_without_content():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    talk = [USER, {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}]
    result = {"role": "tool", "content": "42", "tool_call_id": "c1"}

    told = chat(WITH_TOOLS, messages=[*talk, result])["messages"]

    assert told[1] == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert told[2] == result


@pytest.mark.parametrize("name", ["tools", "tool_choice"])
def test_a_model_without_tools_says_so(name):
    value = {"tools": [TOOL], "tool_choice": "auto"}[name]

    refused = refusal(chat, **{name: value})

    assert (refused.code_here, refused.param) == ("no_tools", name)


def test_a_model_without_tools_is_told_of_no_call_that_its_template_would_drop():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "content": "42", "tool_call_id": "c1"}

    assert refusal(chat, messages=[USER, asked]).param == "messages[1].tool_calls"
    assert refusal(chat, messages=[USER, result]).param == "messages[1]"


@pytest.mark.parametrize("name", ["functions", "function_call"])
def test_the_old_form_of_tools_is_refused(name):
    assert refusal(chat, **{name: []}).code_here == "no_tools"


def test_a_model_with_tools_gets_them():
    asked = chat(WITH_TOOLS, tools=[TOOL], tool_choice="required")

    assert asked["tools"] == [TOOL]
    assert asked["tool_choice"] == "required"


def test_a_function_that_is_named_is_the_only_tool_that_the_engine_hears_of():
    other = {"type": "function", "function": {"name": "other"}}
    named = {"type": "function", "function": {"name": "other"}}

    asked = chat(WITH_TOOLS, tools=[TOOL, other], tool_choice=named, parallel_tool_calls=False)

    assert (asked["tools"], asked["tool_choice"], asked["parallel_tool_calls"]) == ([other], "required", False)


@pytest.mark.parametrize("wanted", ["required", {"type": "function", "function": {"name": "absent"}}])
def test_a_call_of_a_tool_that_is_not_there_is_refused(wanted):
    with pytest.raises(Refused, match="tools"):
        chat(WITH_TOOLS, tool_choice=wanted)
    if isinstance(wanted, dict):
        with pytest.raises(Refused, match="tool_choice"):
            chat(WITH_TOOLS, tools=[TOOL], tool_choice=wanted)


@pytest.mark.parametrize("other", [{"response_format": {"type": "json_object"}}, {"logprobs": True}])
def test_what_would_keep_a_model_from_calling_is_refused_beside_tools(other):
    with pytest.raises(Refused, match="both in one answer"):
        chat(WITH_TOOLS, tools=[TOOL], **other)
    assert "tools" in chat(WITH_TOOLS, tools=[TOOL], logprobs=False)
    assert "tools" in chat(WITH_TOOLS, tools=[TOOL], tool_choice="none", response_format={"type": "json_object"})


def test_without_tools_nothing_about_them_goes_to_the_engine():
    assert chat(WITH_TOOLS, tool_choice="auto", parallel_tool_calls=False) == chat(WITH_TOOLS)


@pytest.mark.parametrize(
    "value",
    [
        [],
        "x",
        [TOOL, TOOL],
        [TOOL] * 65,
        [{"type": "web_search"}],
        [{"type": "function", "function": {"name": "a b"}}],
        [{"type": "function", "function": {"name": "x" * 65}}],
        [{"type": "function", "function": {"name": "x", "description": "d" * 4097}}],
        [{"type": "function", "function": {"name": "x", "parameters": {"pattern": "(a?){2000}"}}}],
        [{"type": "function", "function": {"name": "x", "grammar": "y"}}],
    ],
)
def test_tools_out_of_bounds_are_refused(value):
    with pytest.raises(Refused):
        chat(WITH_TOOLS, tools=value)


@pytest.mark.parametrize("value", ["any", 1, {}, {"type": "function"}, {"type": "function", "function": {"name": ""}}])
def test_a_choice_that_is_none_is_refused(value):
    with pytest.raises(Refused, match="tool_choice"):
        chat(WITH_TOOLS, tools=[TOOL], tool_choice=value)
