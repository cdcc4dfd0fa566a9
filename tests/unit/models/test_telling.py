"""What functions give, as the events of OpenAI's streams."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foretold.models.telling import END, Telling


def events(operation: str, *pieces: Any) -> list[Any]:
    """The chunks of an answer that ended; its last event is `[DONE]`."""
    telling = Telling(operation, "m")
    sent = b"".join(telling.told(piece) for piece in (*pieces, END)).decode()
    lines = [line.removeprefix("data: ") for line in sent.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    assert telling.is_over
    return [json.loads(line) for line in lines]


def deltas(chunks: list[Any]) -> list[Any]:
    return [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in chunks]


def test_text_is_a_delta_the_first_with_its_role_and_the_end_says_that_it_stopped():
    chunks = events("chat", "one ", None, "two")

    assert deltas(chunks) == [
        ({"role": "assistant", "content": "one "}, None),
        ({"content": "two"}, None),
        ({}, "stop"),
    ]
    assert {(chunk["object"], chunk["model"]) for chunk in chunks} == {("chat.completion.chunk", "m")}
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_nothing_at_all_is_an_empty_answer():
    assert deltas(events("chat")) == [({"role": "assistant", "content": ""}, None), ({}, "stop")]


def test_text_completions_have_their_own_shape():
    chunks = events("completion", "one")

    assert [(c["object"], c["choices"][0]["text"], c["choices"][0]["finish_reason"]) for c in chunks] == [
        ("text_completion", "one", None),
        ("text_completion", "", "stop"),
    ]


def test_a_whole_answer_is_one_chunk_with_its_calls_numbered_and_ends_as_it_says():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"total_tokens": 3}
    (chunk,) = events("chat", {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage})

    assert chunk["choices"][0]["delta"]["tool_calls"] == [{"index": 0, **call}]
    assert chunk["choices"][0]["finish_reason"] == "tool_calls"
    assert chunk["usage"] == usage
    assert "message" not in chunk["choices"][0]


def test_chunks_go_out_as_they_are_under_one_id_and_the_model_s_own_name():
    given = {
        "id": "x",
        "model": "other",
        "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "length"}],
    }
    (chunk,) = events("chat", given)

    assert deltas([chunk]) == [({"content": "a"}, "length")]
    assert chunk["model"] == "m"
    assert chunk["id"] != "x"


@pytest.mark.parametrize("piece", [7, b"bytes", ["a"], {}, {"choices": 7}, {"choices": ["a"]}])
def test_what_is_neither_text_nor_openai_s_shape_is_an_error_that_says_what_would_be(piece):
    with pytest.raises(TypeError, match="give text, or an answer or chunk in OpenAI's shape"):
        Telling("chat", "m").told(piece)


@pytest.mark.parametrize(("operation", "member"), [("chat", "message"), ("chat", "delta"), ("completion", "text")])
@pytest.mark.parametrize("said", [7, float("nan"), ["words"], b"words", {"words": 1}])
def test_an_answer_that_says_no_text_is_refused_by_its_type_and_never_its_words(operation, member, said):
    choice = {"text": said} if member == "text" else {member: {"role": "assistant", "content": said}}

    with pytest.raises(TypeError, match=rf"^it gave a {type(said).__name__} as {member}.*: give text$") as refused:
        Telling(operation, "m").told({"choices": [choice]})
    assert "words" not in str(refused.value)
