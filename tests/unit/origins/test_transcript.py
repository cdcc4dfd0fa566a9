"""What an engine's events become: nothing of its own comes out, nothing of the answer is lost."""

from __future__ import annotations

import orjson
import pytest

from foretold.contract.events import Splitter, ends_cleanly, split
from foretold.errors import OriginCut
from foretold.origins.transcript import EngineFailed, Transcript, failure
from foretold.projections import chat, completion
from foretold.projections.shapes import tells_only_usage

COMMON = {"created": 1, "id": "chatcmpl-a", "model": "m", "system_fingerprint": "b0-unknown"}
CHUNK = {**COMMON, "object": "chat.completion.chunk"}
TEXT = {**COMMON, "object": "text_completion"}
PROGRESS = {"total": 35, "cache": 0, "processed": 12, "time_ms": 3}
USAGE = {"completion_tokens": 3, "prompt_tokens": 35, "total_tokens": 38}
TIMINGS = {"prompt_ms": 258.4}
ROLE = {"finish_reason": None, "index": 0, "delta": {"role": "assistant", "content": None}}


def event(chunk) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def said(content, finish=None) -> bytes:
    delta = {} if content is None else {"content": content}
    return event({**CHUNK, "choices": [{"finish_reason": finish, "index": 0, "delta": delta}]})


CHAT = b"".join(
    [
        event({**CHUNK, "choices": [ROLE], "prompt_progress": PROGRESS}),
        event({**CHUNK, "choices": [ROLE], "prompt_progress": {**PROGRESS, "processed": 35}}),
        event({**CHUNK, "choices": [ROLE]}),
        said("Zo"),
        said("ë 🌍"),
        said(None, "stop"),
        event({**CHUNK, "choices": [], "usage": USAGE, "timings": TIMINGS}),
        b"data: [DONE]\n\n",
    ]
)
LOGPROBS = {
    "content": [
        {"id": 1, "token": "ë", "bytes": [1], "logprob": -0.5, "top_logprobs": [{"token": "e", "logprob": -1.5}]}
    ]
}
COMPLETION = b"".join(
    [
        event({**TEXT, "choices": [{"text": "", "index": 0, "finish_reason": None}], "prompt_progress": PROGRESS}),
        event({**TEXT, "choices": [{"text": "Zo", "index": 0, "logprobs": None, "finish_reason": None}]}),
        event({**TEXT, "choices": [{"text": "ë", "index": 0, "logprobs": LOGPROBS, "finish_reason": None}]}),
        event(
            {
                **TEXT,
                "choices": [{"text": "", "index": 0, "logprobs": None, "finish_reason": "length"}],
                "usage": USAGE,
                "timings": TIMINGS,
            }
        ),
        b"data: [DONE]\n\n",
    ]
)


def through(stream: bytes, operation="chat", *, pieces=None, wants_json=False) -> tuple[bytes, Transcript]:
    transcript = Transcript(operation, fingerprint="engine/1", wants_json=wants_json)
    splitter = Splitter()
    out = b"".join(transcript.told(e) for piece in pieces or [stream] for e in splitter.feed(piece))
    return out, transcript


def test_no_progress_and_no_timings_come_out():
    out, _ = through(CHAT)

    assert b"prompt_progress" not in out
    assert b"timings" not in out


def test_the_answer_is_all_there_and_ends_cleanly():
    out, transcript = through(CHAT)
    events, rest = split(out)

    assert ends_cleanly(events, rest)
    assert transcript.is_done
    assert chat.whole_of(events)["choices"][0]["message"]["content"] == "Zoë 🌍"
    assert chat.whole_of(events)["usage"] == USAGE


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_events_cut_anywhere_come_out_the_same(size):
    pieces = [CHAT[at : at + size] for at in range(0, len(CHAT), size)]

    assert through(CHAT, pieces=pieces)[0] == through(CHAT)[0]


def test_a_cut_inside_a_character_leaves_it_whole():
    at = CHAT.index("ë".encode()) + 1

    out, _ = through(CHAT, pieces=[CHAT[:at], CHAT[at:]])

    assert "ë 🌍".encode() in out


def test_callers_see_which_engine_answered():
    out, _ = through(CHAT)

    assert b"b0-unknown" not in out
    assert chat.whole_of(split(out)[0])["system_fingerprint"] == "engine/1"


def test_the_end_is_known_only_once_it_was_told():
    _, transcript = through(CHAT.removesuffix(b"data: [DONE]\n\n"))

    assert not transcript.is_done


def test_a_text_completion_has_its_own_kind_of_id():
    out, _ = through(COMPLETION, "completion")

    assert completion.whole_of(split(out)[0])["id"] == "cmpl-a"
    assert b"chatcmpl" not in out


def test_a_text_completion_tells_usage_in_an_event_of_its_own():
    out, _ = through(COMPLETION, "completion")

    *_, last, usage, done = split(out)[0]
    assert not tells_only_usage(last)
    assert tells_only_usage(usage)
    assert done.data == "[DONE]"
    assert completion.whole_of(split(out)[0])["choices"][0]["text"] == "Zoë"


def test_log_probabilities_of_a_text_completion_are_lists():
    out, _ = through(COMPLETION, "completion")

    assert completion.whole_of(split(out)[0])["choices"][0]["logprobs"] == {
        "tokens": ["ë"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"e": -1.5}],
        "text_offset": [2],
    }


def test_comments_do_not_come_out():
    assert through(b": ping\n\n" + CHAT)[0] == through(CHAT)[0]


@pytest.mark.parametrize(
    "told",
    [
        event({"error": {"code": 500, "message": "x", "type": "server_error"}}),
        b'error: {"code": 500, "message": "x"}\n\n',
    ],
)
def test_an_error_event_ends_the_answer(told):
    with pytest.raises(EngineFailed) as failed:
        through(said("a") + told)

    assert failed.value.status == 500


@pytest.mark.parametrize("told", [b"data: {\n\n", b"data: 1\n\n", b"data: \xff\n\n"])
def test_what_is_no_event_of_an_engine_cuts_the_answer(told):
    with pytest.raises(OriginCut):
        through(told)


@pytest.mark.parametrize(
    ("text", "finish", "sound"),
    [
        ('{"a": 1}', "stop", True),
        ("free text", "stop", False),
        ("", "stop", False),
        ('{"a": ', "length", True),
    ],
)
def test_an_answer_that_had_to_be_json_is_sound_only_if_it_is(text, finish, sound):
    _, transcript = through(said(text[:2]) + said(text[2:]) + said(None, finish), wants_json=True)

    assert transcript.is_sound is sound


def test_any_text_is_sound_where_no_json_was_asked():
    _, transcript = through(said("free text") + said(None, "stop"))

    assert transcript.is_sound


def told_of(status, error):
    status, body = failure(status, error, question="messages", model="m")
    return status, orjson.loads(body)["error"]


def test_a_prompt_too_long_is_told_in_numbers():
    error = {"code": 400, "message": "…", "type": "exceed_context_size_error", "n_prompt_tokens": 3031, "n_ctx": 2048}

    status, told = told_of(400, error)

    assert (status, told["code"], told["param"]) == (400, "context_length_exceeded", "messages")
    assert "3,031" in told["message"]
    assert "2,048" in told["message"]


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(400, 400), (422, 400), (501, 500), (500, 500), (503, 503), (401, 500), (404, 500), (302, 500)],
)
def test_the_engines_own_words_stay_inside(status, wanted):
    error = {"code": status, "message": "failed at /home/someone/model.gguf", "type": "x"}

    got, told = told_of(status, error)

    assert got == wanted
    assert "/" not in told["message"]
    assert set(told) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("error", [None, "text", [], {}, {"type": "exceed_context_size_error", "n_ctx": "x"}])
def test_an_error_of_any_shape_can_be_told(error):
    status, told = told_of(400, error)

    assert status == 400
    assert told["type"] == "invalid_request_error"


def called(index: int, arguments: str, finish=None) -> bytes:
    call = {"index": index, "function": {"name": "look", "arguments": arguments}}
    return event({**CHUNK, "choices": [{"finish_reason": finish, "index": 0, "delta": {"tool_calls": [call]}}]})


def test_calls_beyond_the_first_are_left_out_where_one_was_asked_for():
    told = Transcript("chat", fingerprint="f", must_call=True, calls_once=True)

    events = [
        told.told(one) for one in (called(0, '{"a":'), called(0, "1}"), called(1, '{"b'), said(None, "tool_calls"))
    ]

    assert [bool(one) for one in events] == [True, True, False, True]
    assert b'\\"b' not in b"".join(events)
    assert told.is_sound


@pytest.mark.parametrize(("arguments", "is_sound"), [('{"a":1}', True), ('{"a":', False), ("", False)])
def test_an_answer_whose_calls_have_no_whole_arguments_is_not_sound(arguments, is_sound):
    told = Transcript("chat", fingerprint="f")

    for one in (called(0, "{}"), called(1, arguments[:3]), called(1, arguments[3:]), said(None, "tool_calls")):
        told.told(one)

    assert told.is_sound is is_sound
