"""Chats as Workers AI tells them: the same answer in either shape, and nothing but answers."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold.contract.events import split
from foretold.projections import chat, workers_ai
from foretold.projections.fold import NotAnAnswer

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "message", "content", "tool_calls", "function", "index", "usage", "error", "name"]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def completion(text: str | None, calls: list | None = None) -> bytes:
    message = {"role": "assistant", "content": text}
    if calls is not None:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "x", "choices": [choice], "usage": {"total_tokens": 3}}).encode()


def told(transcript: bytes) -> list[dict]:
    *events, done = [event.data for event in split(transcript)[0]]
    assert done == "[DONE]"
    return [json.loads(data) for data in events]


@given(TEXTS)
def test_a_stream_tells_what_the_whole_answer_tells(text):
    answer = json.loads(completion(text))

    events = told(workers_ai.transcript(chat.transcript_of(answer, usage=True)))

    whole = json.loads(workers_ai.whole(completion(text)))["result"]
    assert "".join(event["response"] for event in events) == whole["response"] == text
    assert {**events[-1], "response": text} == whole


def test_calls_whose_arguments_are_no_object_keep_them_as_text():
    calls = [{"id": "a", "type": "function", "function": {"name": "f", "arguments": text}} for text in ("[1]", "{", "")]

    result = json.loads(workers_ai.whole(completion(None, calls)))["result"]

    assert [call["arguments"] for call in result["tool_calls"]] == ["[1]", "{", ""]


def test_comments_stay_and_what_follows_the_end_is_not_told():
    transcript = b': alive\n\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\ndata: {"choices":5}\n\n'

    assert workers_ai.transcript(transcript) == (
        b': alive\n\ndata: {"response":"a"}\n\ndata: {"response":""}\n\ndata: [DONE]\n\n'
    )


def test_of_several_choices_the_first_is_told():
    chunk = {"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]}

    assert workers_ai.Retelling().told(b"data: " + json.dumps(chunk).encode() + b"\n\n") == (
        b'data: {"response":"a"}\n\n'
    )


@given(VALUES)
def test_any_json_is_an_answer_or_is_said_to_be_none(value):
    body = json.dumps(value).encode()

    for retold in (
        lambda: workers_ai.whole(body),
        lambda: workers_ai.transcript(b"data: " + body + b"\n\ndata: [DONE]\n\n"),
    ):
        with contextlib.suppress(NotAnAnswer):
            assert retold()
    json.loads(workers_ai.refused(500, body))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 5}', b'{"error": {"message": 5}}'])
def test_an_error_without_words_tells_its_status(body):
    told = json.loads(workers_ai.refused(503, body))

    assert told["errors"] == [{"code": 3040, "message": "the origin answered with status 503"}]
