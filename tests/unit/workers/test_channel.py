from __future__ import annotations

import asyncio
import socket

import pytest

from foretold.errors import ConfigError, ForetoldError
from foretold.workers.channel import Channel, ChannelClosed


@pytest.fixture
async def ends():
    """Two ends; each answers with what it was asked, or as `refuse` and `fail` say."""

    async def answer(what, members):
        if what == "refuse":
            raise ConfigError("no")
        if what == "fail":
            raise ZeroDivisionError
        if what == "wait":
            await asyncio.Event().wait()
        return {"what": what, **members}

    one, other = socket.socketpair()
    channels = await Channel.open(one, answer), await Channel.open(other, answer)
    yield channels
    for channel in channels:
        await channel.close()


async def test_both_ends_may_ask_at_once(ends):
    one, other = ends
    told = await asyncio.gather(*(end.ask("this", number=i) for i in range(50) for end in (one, other)))

    assert [answer["number"] for answer in told] == [i for i in range(50) for _ in "ab"]


async def test_a_question_that_waits_holds_up_no_other(ends):
    waiting = asyncio.create_task(ends[0].ask("wait"))
    told = await ends[0].ask("this")
    waiting.cancel()

    assert told == {"what": "this"}


async def test_an_error_is_raised_as_it_was_there(ends):
    with pytest.raises(ConfigError, match="^no$"):
        await ends[0].ask("refuse")


async def test_a_fault_of_ours_is_told_and_not_waited_for(ends):
    with pytest.raises(ForetoldError, match="its log says how"):
        await ends[0].ask("fail")


async def test_whoever_waits_for_a_process_that_ends_is_told(ends):
    waiting = asyncio.create_task(ends[0].ask("wait"))
    await ends[0].ask("this")
    await ends[1].close()

    with pytest.raises(ChannelClosed):
        await waiting
    with pytest.raises(ChannelClosed):
        await ends[0].ask("this")
