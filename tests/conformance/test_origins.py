"""The laws of every origin (ports.Origin), over real sockets.  A new origin joins the table below."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from foretold.errors import OriginCut, OriginError
from foretold.models.manifest import SMOLLM2
from foretold.origins.chain import Chain
from foretold.origins.local import LocalOrigin
from foretold.origins.predict import TextPredictions
from foretold.origins.upstream import Upstream
from foretold.ports import Asked, Forwarded, Origin
from tests.fakes import engine as engines
from tests.fakes.upstream import FakeUpstream, begin_stream, chat, chunks_of, send_chunk, stream

ASKED = Asked(
    "chat",
    "m",
    "POST",
    "/chat/completions",
    body=b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}',
    streamed=True,
)


@dataclass
class World:
    """An origin, and what lies behind it: whether its work was stopped, and the gate its slow answers wait at."""

    origin: Origin
    gate: asyncio.Event
    stopped: Callable[[], asyncio.Event]


def _upstream_scripts(kind: str, gate: asyncio.Event):
    async def reply(call, writer, serial):
        events = chunks_of(chat(call.json, "some words"), usage=True)
        if kind == "good":
            await stream(writer, events)
        elif kind == "thinks":
            await gate.wait()
        else:
            await begin_stream(writer)
            for event in events[:2]:
                await send_chunk(writer, event)
            if kind == "slow":
                await gate.wait()
            writer.close()

    return reply


@asynccontextmanager
async def before_an_upstream(kind: str, folder: Path) -> AsyncIterator[World]:
    gate = asyncio.Event()
    async with FakeUpstream() as fake:
        fake.on("m", _upstream_scripts(kind, gate))
        origin = Upstream("fake", fake.url)
        yield World(origin, gate, lambda: fake.calls[0].cut)
        await origin.close()


@asynccontextmanager
async def before_an_engine(kind: str, folder: Path) -> AsyncIterator[World]:
    gate = asyncio.Event()
    half = [engines.PROGRESS, engines.said("some ")]
    scripts = {
        "good": engines.ANSWER,
        "thinks": [engines.PROGRESS, gate],
        "slow": [*half, gate],
        "breaks": [*half, engines.CUT],
    }
    async with engines.FakeEngine(folder, scripts[kind]) as fake:
        origin = LocalOrigin(engines.FakeHost(fake.socket), replace(SMOLLM2, parallel=1))
        yield World(origin, gate, lambda: fake.asked[0].left)
        await origin.close()


@asynccontextmanager
async def in_a_chain(kind: str, folder: Path) -> AsyncIterator[World]:
    async with before_an_upstream(kind, folder) as world:
        yield replace(world, origin=Chain([world.origin], retries=0))


@asynccontextmanager
async def as_predictions(kind: str, folder: Path) -> AsyncIterator[World]:
    async with before_an_upstream(kind, folder) as world:
        yield replace(world, origin=TextPredictions(world.origin))


@dataclass
class Origins:
    make: Callable
    folder: Path
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __call__(self, kind: str) -> World:
        return await self.stack.enter_async_context(self.make(kind, self.folder))


@pytest.fixture(params=[before_an_upstream, before_an_engine, in_a_chain, as_predictions], ids=lambda f: f.__name__)
async def world(request, tmp_path) -> AsyncIterator[Origins]:
    origins = Origins(request.param, tmp_path)
    async with origins.stack:
        yield origins


async def test_an_answer_is_proven_at_its_end_and_not_before(world):
    origin = (await world("good")).origin

    incoming = await origin.fetch(ASKED, Forwarded())
    before = incoming.is_proven
    body = b"".join([chunk async for chunk in incoming.chunks()])

    assert incoming.status == 200
    assert not before
    assert incoming.is_proven
    assert body.endswith(b"data: [DONE]\n\n")
    await incoming.close()


async def test_headers_are_in_lower_case_and_none_is_about_framing(world):
    origin = (await world("good")).origin

    incoming = await origin.fetch(ASKED, Forwarded())

    names = {name for name, _ in incoming.headers}
    assert names == {name.lower() for name in names}
    assert "content-type" in names
    assert not names & {"transfer-encoding", "connection", "content-length", "keep-alive", "date", "server"}
    await incoming.close()


async def test_an_answer_that_breaks_off_raises_and_is_never_proven(world):
    origin = (await world("breaks")).origin

    incoming = await origin.fetch(ASKED, Forwarded())
    with pytest.raises(OriginError) as caught:
        async for _ in incoming.chunks():
            pass

    assert isinstance(caught.value, OriginCut)
    assert not incoming.is_proven
    await incoming.close()


async def test_cancelling_before_the_first_token_stops_the_work(world):
    made = await world("thinks")
    fetching = asyncio.create_task(made.origin.fetch(ASKED, Forwarded()))
    await _arrived(made)

    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)

    await asyncio.wait_for(made.stopped().wait(), 5)


async def test_closing_in_mid_answer_stops_the_work_and_closing_twice_is_harmless(world):
    made = await world("slow")
    incoming = await made.origin.fetch(ASKED, Forwarded())
    async for _ in incoming.chunks():
        break

    await incoming.close()
    await incoming.close()

    await asyncio.wait_for(made.stopped().wait(), 5)
    assert not incoming.is_proven


async def _arrived(made: World) -> None:
    """Returns once the question has reached what lies behind the origin."""
    from tests.waiting import until

    def asked() -> bool:
        try:
            made.stopped()
        except IndexError:
            return False
        return True

    await until(asked)
