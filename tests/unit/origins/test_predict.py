"""Predictions of a text model."""

from __future__ import annotations

import orjson
import pytest

from foretold.errors import Malformed, OriginCut, OriginError, OriginTimeout
from foretold.origins.chain import Chain
from foretold.origins.predict import TextPredictions
from foretold.origins.whole import WholeAnswer
from foretold.ports import Asked, Forwarded

JSON = [("content-type", "application/json")]
EVENTS = [("content-type", "text/event-stream; charset=utf-8")]


class FakeOrigin:
    name = "fake"
    limits_answers = False

    def __init__(self, body=b"", *, status=200, headers=JSON, is_proven=True, fails=None):
        self.asked = []
        self.is_closed = False
        self.answer = Answer(status, headers, body, is_proven=is_proven)
        self.answer.fails = fails

    async def fetch(self, asked, forwarded):
        self.asked.append((asked, forwarded))
        return self.answer

    async def close(self):
        self.is_closed = True


class Limiting(FakeOrigin):
    limits_answers = True


class Answer(WholeAnswer):
    fails = None
    is_closed = False

    async def chunks(self):
        middle = len(self._body) // 2
        yield self._body[:middle]
        if self.fails is not None:
            raise self.fails
        yield self._body[middle:]

    async def close(self):
        self.is_closed = True


def whole(content="blue", finish="stop", **said) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **said}, "finish_reason": finish}
    return orjson.dumps({"id": "x", "object": "chat.completion", "choices": [choice]})


def events(content="blue", finish="stop", done=b"data: [DONE]\n\n") -> bytes:
    chunks = [{"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": None}]
    chunks.append({"index": 0, "delta": {}, "finish_reason": finish})
    return b"".join(b"data: " + orjson.dumps({"id": "x", "choices": [c]}) + b"\n\n" for c in chunks) + done


def asked(operation="predict", **body) -> Asked:
    return Asked(
        operation=operation, model="m", method="QUERY", path="/predict/m", body=orjson.dumps(body), usage=False
    )


async def predict(origin, **body):
    incoming = await TextPredictions(origin).fetch(asked(**body), Forwarded())
    return b"".join([chunk async for chunk in incoming.chunks()]), incoming


async def test_the_question_is_one_user_message_of_a_chat():
    origin = FakeOrigin(whole())
    forwarded = Forwarded((("traceparent", "x"),))

    await TextPredictions(origin).fetch(asked(prompt="Why?", max_tokens=5), forwarded)

    ((chat, passed),) = origin.asked
    assert (chat.operation, chat.method, chat.path, chat.query) == ("chat", "POST", "/chat/completions", "")
    assert orjson.loads(chat.body) == {"model": "m", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 5}
    assert passed is forwarded


@pytest.mark.parametrize(
    ("body", "headers"), [(whole("blue"), JSON), (events("blue"), EVENTS)], ids=["whole", "events"]
)
async def test_the_answer_is_its_text(body, headers):
    told, incoming = await predict(FakeOrigin(body, headers=headers), prompt="Why?")

    assert told == b'{"output":"blue"}'
    assert (incoming.status, incoming.headers, incoming.length) == (200, JSON, len(told))
    assert incoming.is_proven


@pytest.mark.parametrize(
    ("origin", "body", "kept"),
    [
        (FakeOrigin(whole(finish="length")), {}, False),
        (FakeOrigin(whole(finish="length")), {"max_tokens": 5}, True),
        (Limiting(whole(finish="length")), {}, True),
        (FakeOrigin(whole(finish="content_filter")), {}, False),
        (FakeOrigin(whole("")), {}, False),
        (FakeOrigin(whole(), is_proven=False), {}, False),
        (FakeOrigin(events(finish=None), headers=EVENTS), {}, False),
        (FakeOrigin(whole(None, refusal="no")), {}, False),
        (FakeOrigin(whole(None, "tool_calls", tool_calls=[{"id": "a"}])), {}, False),
    ],
    ids=["length", "limited", "limits itself", "filtered", "empty", "unproven", "no finish", "refusal", "call"],
)
async def test_only_a_finished_answer_may_be_kept(origin, body, kept):
    told, incoming = await predict(origin, prompt="Why?", **body)

    assert "output" in orjson.loads(told)
    assert (incoming.is_proven and incoming.why_not is None) is kept


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_errors_are_passed_on_as_they_are(status):
    origin = FakeOrigin(b'{"error": {"message": "no"}}', status=status)

    told, incoming = await predict(origin, prompt="Why?")

    assert told == b'{"error": {"message": "no"}}'
    assert incoming is origin.answer


@pytest.mark.parametrize("operation", ["chat", "completion", "json /classify", ""])
async def test_all_other_operations_go_on_untouched(operation):
    origin, question = FakeOrigin(whole()), asked(operation, anything=1)

    incoming = await TextPredictions(origin).fetch(question, Forwarded())

    assert incoming is origin.answer
    assert origin.asked[0][0] is question


async def test_the_inner_answer_is_closed():
    origin = FakeOrigin(whole())

    await predict(origin, prompt="Why?")

    assert origin.answer.is_closed


async def test_a_failure_in_mid_answer_is_the_predictions_failure():
    origin = FakeOrigin(whole(), fails=OriginTimeout("too slow"))

    with pytest.raises(OriginTimeout):
        await predict(origin, prompt="Why?")

    assert origin.answer.is_closed


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": 1}]}', b'{"choices": 1}']
)
async def test_what_is_no_chat_completion_is_an_error_that_asking_again_does_not_mend(body):
    with pytest.raises(OriginError) as raised:
        await predict(FakeOrigin(body), prompt="Why?")

    assert type(raised.value) is OriginError


async def test_half_a_stream_is_a_cut_answer():
    with pytest.raises(OriginCut, match="not all of the answer came"):
        await predict(FakeOrigin(events(done=b""), headers=EVENTS), prompt="Why?")


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"error": {"message": "quota gone"}}', JSON),
        (events(done=b'data: {"error": {"message": "quota gone"}}\n\n'), EVENTS),
    ],
    ids=["whole", "events"],
)
async def test_an_error_told_with_200_is_asked_for_once_and_told_in_its_words(body, headers):
    origin = FakeOrigin(body, headers=headers)

    with pytest.raises(OriginError, match="quota gone"):
        await Chain([TextPredictions(origin)]).fetch(asked(prompt="Why?"), Forwarded())

    assert len(origin.asked) == 1


async def test_an_endless_answer_is_an_error(monkeypatch):
    monkeypatch.setattr("foretold.origins.predict.LARGEST_BYTES", 10)

    with pytest.raises(OriginError, match="too long"):
        await predict(FakeOrigin(whole()), prompt="Why?")


@pytest.mark.parametrize("body", [{}, {"prompt": 1}, {"prompt": "x", "n": 2}, {"input": "x"}])
async def test_a_question_of_another_shape_is_refused_before_the_model_is_asked(body):
    origin = FakeOrigin(whole())

    with pytest.raises(Malformed):
        await predict(origin, **body)

    assert origin.asked == []


async def test_closing_closes_the_inner_origin():
    origin = FakeOrigin()

    await TextPredictions(origin).close()

    assert origin.is_closed
