"""Every form of a request has one reading here: it is refused and the connection ends, or it is one request."""

from __future__ import annotations

import json

import pytest

from tests.clock import Clock
from tests.integration.framing_forms import FORMS, Form, asking, post
from tests.integration.odd_requests import Connection
from tests.integration.peeking import side
from tests.raw import RawCaller, calling
from tests.running import in_front_of, running


def innocent(mark: str) -> bytes:
    body = asking(mark)
    return post(b"content-length: %d\r\n" % len(body), body)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_a_form_is_read_in_one_way_and_so_is_what_follows_it(upstream, tmp_path, form: Form):
    """Sent alone and together with an innocent request; when its body is new, and when its answer is known."""
    route = '[[routes]]\nname = "r"\nmodels = ["m"]\nupstream = "fake"\n'
    async with running(in_front_of(upstream.url, route), tmp_path) as node:
        for known in ("new", "known"):
            async with calling(node.url) as caller:
                caller.send(form.sent)
                await _is_answered(caller, form)
                if form.stays_open:
                    caller.send(innocent(f"after, {known}"))
                await _is_followed(caller, form, f"after, {known}")
            async with calling(node.url) as caller:
                caller.send(form.sent + innocent(f"along, {known}"))
                await _is_answered(caller, form)
                await _is_followed(caller, form, f"along, {known}")

    asked = [json.loads(call.body)["messages"][0]["content"] for call in upstream.calls]
    assert set(asked) <= {"the form", "after, new", "after, known", "along, new", "along, known"}
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("form", ["extensions of 300 kB", "trailers of 300 kB"])
async def test_what_is_too_sparse_is_refused_however_it_comes(upstream, tmp_path, form):
    sent = FORMS[form].sent
    async with side(in_front_of(upstream.url), tmp_path, peeks=True, now_ms=Clock()) as node:
        for cut in (0, 200, 50_000, 100_000, 130_000, 200_000, 299_000, len(sent) - 1):
            told, is_closed = await node.says(Connection((sent[:cut], sent[cut:]), (), leaves=False))

            assert told.startswith(b"HTTP/1.1 400 "), f"cut at {cut}"
            assert is_closed

    assert upstream.calls == []


async def _is_answered(caller: RawCaller, form: Form) -> None:
    for status in form.answers:
        answer = await caller.answer()
        assert answer is not None, f"it ended before its {status}"
        assert answer.status == status, answer.body
        if status == 200 and b'"choices"' in answer.body:
            assert b"You said 'the form'" in answer.body


async def _is_followed(caller: RawCaller, form: Form, mark: str) -> None:
    answer = await caller.answer()
    if not form.stays_open:
        assert answer is None
        return
    assert answer is not None, "it ended"
    assert f"You said '{mark}'".encode() in answer.body


def test_the_forms_are_more_than_those_that_were_measured():
    assert len(FORMS) >= 46
