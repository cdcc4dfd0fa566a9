"""A glance at a transcript says of its ending what folding it says, or nothing."""

from __future__ import annotations

import random

import orjson
import pytest
from hypothesis import given, settings

from foretold.contract import storable
from foretold.contract.events import ends_cleanly, split
from foretold.projections import glance, shapes
from foretold.projections.fold import NotAnAnswer
from tests.contract import strategies
from tests.contract.random_answers import Answers


def agrees(operation: str, transcript: bytes) -> bool:
    """Whether there was a glance; it must say what the fold says."""
    glanced = glance.OF[operation](transcript)
    if glanced is None:
        return False
    events, rest = split(transcript)
    assert ends_cleanly(events, rest)
    folded = shapes.WHOLE_OF[operation](events)
    for limited in (True, False):
        verdicts = [storable.why_not(operation, 200, value, limited=limited) for value in (glanced, folded)]
        assert verdicts[0] == verdicts[1], transcript
    assert as_kept(glanced["usage"]) == as_kept(folded.get("usage"))
    return True


def as_kept(usage: object) -> object:
    return orjson.loads(orjson.dumps(usage))


@pytest.mark.parametrize("operation", ["chat", "completion"])
def test_random_transcripts_are_judged_alike(operation):
    answers = Answers(random.Random(7))
    for _ in range(3000):
        try:
            agrees(operation, answers.transcript(operation))
        except NotAnAnswer:
            pytest.fail("a glance was given at what is no answer")


@settings(max_examples=200)
@given(strategies.chats())
def test_an_unfolded_chat_is_judged_as_its_whole(chat):
    agrees("chat", shapes.events("chat", orjson.dumps(chat), shape="whole", usage=True))


USUAL = b'data: {"id":"1","choices":[{"index":0,"delta":{%b},"logprobs":null,"finish_reason":%b}]}\n\n'


@pytest.mark.parametrize(
    "parts",
    [
        [(b'"role":"assistant","content":"","refusal":null', b"null"), (b'"content":"a"', b"null"), (b"", b'"stop"')],
        [(b'"role":"assistant","content":""', b"null"), (b"", b'"stop"')],
        [(b'"content":"a"', b'"length"')],
        [(b'"content":"a"', b'"stop"'), (b'"content":"b"', b"null")],
        [(b'"content":"a"', b'"stop"'), (b"", b'"content_filter"')],
        [(b'"content":null,"reasoning_content":"hm"', b'"stop"')],
        [(b'"content":"a"', b'""')],
    ],
)
def test_usual_transcripts_get_a_glance_and_the_same_verdict(parts):
    transcript = b"".join(USUAL % part for part in parts)

    assert agrees("chat", transcript + b'data: {"choices":[],"usage":{"total_tokens":3}}\n\ndata: [DONE]\n\n')


@pytest.mark.parametrize(
    "event",
    [
        b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}',
        b'{"choices":[{"index":0,"delta":{"odd":1}}]}',
        b'{"choices":[{"index":"0","delta":{}}]}',
        b'{"choices":[{"index":true,"delta":{}}]}',
        b'{"choices":[{"index":-0,"delta":{}}]}',
        b'{"choices":[{"index":0.0,"delta":{}}]}',
        b'{"choices":[{"index":-1,"delta":{}}]}',
        b'{"choices":[{"index":100000000000000000,"delta":{}}]}',
        b'{"choices":[{"index":0,"delta":{"content":1}}]}',
        b'{"choices":[{"index":0,"delta":null}]}',
        b'{"choices":null}',
        b'{"choices":[],"error":{"message":"no"}}',
        b'{"choices":[],"x":1e999}',
        b'{"choices":[],"x":"\\ud800"}',
        b'{"choices":[],"usage":7}',
        b"7",
        b"{",
        b"[" * 40 + b"]" * 40,
    ],
)
def test_whatever_is_unusual_is_left_to_the_fold(event):
    assert glance.of_chat(b"data: " + event + b"\n\ndata: [DONE]\n\n") is None


@pytest.mark.parametrize(
    "transcript",
    [
        b"",
        b"data: [DONE]",
        b'data: {"choices":[]}\n\n',
        b'data: {"choices":[]}\n\ndata: [DONE]\n\ndata: [DONE]\n\n',
        b'data: {"choices":[]}\n\ndata: [DONE]\n\n: late\n\n',
        b'data: {"choices":[]}\r\n\r\ndata: [DONE]\n\n',
        b'data: {"choices":\ndata: []}\n\ndata: [DONE]\n\n',
        b'event: odd\ndata: {"choices":[]}\n\ndata: [DONE]\n\n',
        b'data: {"choices":[],"x":"\xff"}\n\ndata: [DONE]\n\n',
    ],
)
def test_a_transcript_without_a_clean_end_or_of_other_lines_is_left_to_the_fold(transcript):
    assert glance.of_chat(transcript) is None
