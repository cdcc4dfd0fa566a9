"""Retries at each origin, then the next (rule U1)."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from foretold.errors import OriginCut, OriginError, OriginTimeout, OriginUnreachable, Refused
from foretold.origins.chain import Chain
from foretold.ports import Asked, Forwarded
from tests.fakes.origin import FakeIncoming, FakeOrigin

ASKED = Asked("chat", "m", "POST", "/chat/completions", body=b"{}")
CREDENTIAL = Forwarded(credential=("authorization", "Bearer mine"))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    async def at_once(seconds: float) -> None:
        return None

    monkeypatch.setattr("foretold.origins.chain.asyncio.sleep", at_once)


def good(body: bytes = b"answer") -> FakeIncoming:
    return FakeIncoming([body])


def refused_with(status: int, **headers: str) -> FakeIncoming:
    return FakeIncoming([b"no"], status=status, headers=[(n.replace("_", "-"), v) for n, v in headers.items()])


async def body_of(incoming) -> bytes:
    return b"".join([chunk async for chunk in incoming.chunks()])


@pytest.mark.parametrize(
    ("failure", "calls"),
    [
        (OriginUnreachable("x"), 3),
        (OriginCut("x"), 2),
        (OriginTimeout("x"), 1),
        (OriginError("x"), 1),
        (Refused("x"), 1),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Exception) else v,
)
async def test_only_what_is_safe_is_asked_again_and_never_for_ever(failure, calls):
    origin = FakeOrigin(failure)

    with pytest.raises(type(failure)):
        await Chain([origin]).fetch(ASKED, Forwarded())

    assert len(origin.asked) == calls


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        (refused_with(500), 1),
        (refused_with(502), 3),
        (refused_with(503), 3),
        (refused_with(504), 3),
        (refused_with(429), 1),
        (refused_with(429, retry_after="1"), 3),
        (refused_with(429, retry_after="6"), 1),
        (refused_with(503, retry_after="1382400"), 1),
        (refused_with(400), 1),
    ],
    ids=lambda v: f"{v.status} {dict(v.headers)}" if isinstance(v, FakeIncoming) else v,
)
async def test_statuses_are_asked_again_by_their_kind(answer, calls):
    origin = FakeOrigin(answer)

    incoming = await Chain([origin]).fetch(ASKED, Forwarded())

    assert incoming.status == answer.status
    assert len(origin.asked) == calls


async def test_an_answer_lost_before_its_first_byte_is_asked_for_once_more():
    origin = FakeOrigin(FakeIncoming([OriginCut("x")]), good())

    assert await body_of(await Chain([origin]).fetch(ASKED, Forwarded())) == b"answer"
    assert len(origin.asked) == 2


async def test_an_answer_lost_after_its_first_byte_is_not_asked_for_again():
    origin = FakeOrigin(FakeIncoming([b"some", OriginCut("x")]))

    incoming = await Chain([origin]).fetch(ASKED, Forwarded())
    with pytest.raises(OriginCut):
        await body_of(incoming)

    assert len(origin.asked) == 1


async def test_what_is_not_used_is_closed():
    failed, used = refused_with(502), good()

    incoming = await Chain([FakeOrigin(failed, used)]).fetch(ASKED, Forwarded())

    assert failed.closed == 1
    assert used.closed == 0
    await incoming.close()
    assert used.closed == 1


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_the_callers_own_fault_is_no_reason_for_a_fallback(status):
    other = FakeOrigin(good())

    incoming = await Chain([FakeOrigin(refused_with(status)), other]).fetch(ASKED, Forwarded())

    assert incoming.status == status
    assert other.asked == []


@pytest.mark.parametrize(
    "failure", [refused_with(500), refused_with(429), OriginTimeout("x"), OriginUnreachable("x")], ids=str
)
async def test_a_fallback_answers_labelled_and_without_the_callers_credential(failure):
    first, second = FakeOrigin(failure), FakeOrigin(good())

    incoming = await Chain([first, second]).fetch(ASKED, CREDENTIAL)

    assert await body_of(incoming) == b"answer"
    assert incoming.is_fallback
    assert first.forwarded[0].credential is not None
    assert second.forwarded[0].credential is None
    if isinstance(failure, FakeIncoming):
        assert failure.closed == 1


@pytest.mark.parametrize("other", [OriginTimeout("x"), refused_with(503), refused_with(400)], ids=str)
async def test_where_all_fail_the_first_origins_words_are_told(other):
    first, second = FakeOrigin(refused_with(500)), FakeOrigin(other)

    incoming = await Chain([first, second]).fetch(ASKED, Forwarded())

    assert incoming.status == 500
    assert not incoming.is_fallback


async def test_a_fallback_that_refuses_is_closed_and_the_next_one_asked():
    refusing, last = refused_with(404), FakeOrigin(good())

    incoming = await Chain([FakeOrigin(refused_with(500)), FakeOrigin(refusing), last]).fetch(ASKED, Forwarded())

    assert await body_of(incoming) == b"answer"
    assert refusing.closed == 1


@pytest.mark.parametrize("passes", ["server-state", "remote-tool", "undeclared", "unkeyable-size"])
@pytest.mark.parametrize(
    "failure",
    [refused_with(502), refused_with(429, retry_after="1"), OriginCut("x"), FakeIncoming([OriginCut("x")])],
    ids=str,
)
async def test_what_may_have_side_effects_is_asked_once(passes, failure):
    first, second = FakeOrigin(failure), FakeOrigin(good())

    with contextlib.suppress(OriginCut):
        await Chain([first, second]).fetch(replace(ASKED, passes=passes), Forwarded())

    assert len(first.asked) == 1
    assert second.asked == []


async def test_what_may_have_side_effects_is_tried_again_where_nothing_was_sent():
    origin = FakeOrigin(OriginUnreachable("x"), good())

    incoming = await Chain([origin]).fetch(replace(ASKED, passes="server-state"), Forwarded())

    assert await body_of(incoming) == b"answer"
