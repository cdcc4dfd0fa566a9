"""A call given up while it connects closes its own file once, and never another's."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Iterator

import pytest
import uvloop

from foretold.origins.upstream import Upstream
from foretold.ports import Asked, Forwarded
from tests.fakes.upstream import FakeUpstream

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
# More turns of the loop than it takes to connect and to be answered.
TURNS = 40


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    """What is there before is left out of each collection, of which there are hundreds here."""
    gc.freeze()
    yield
    gc.unfreeze()


async def lost_files(upstream: FakeUpstream) -> list[str]:
    """Files of ours that are closed though we didn't, after calls were given up at every turn of the loop."""
    lost = []
    for turns in range(TURNS):
        origin = Upstream("fake", upstream.url)
        call = asyncio.create_task(origin.fetch(Asked("json /x", "", "POST", "/x", body=b"{}"), Forwarded()))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await call).close()
        # The numbers of files closed meanwhile are given out anew; whoever closes one of them again closes ours.
        ours = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
        del call
        gc.collect()
        await asyncio.sleep(0)
        for file in ours:
            try:
                os.close(file)
            except OSError:
                lost.append(f"file {file}, after {turns} turns")
        await origin.close()
    return lost


@LOOPS
def test_whoever_gives_up_while_connecting_closes_no_file_of_others(loop):
    async def main() -> list[str]:
        async with FakeUpstream() as upstream:
            return await lost_files(upstream)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(main()) == []


@LOOPS
def test_whoever_gives_up_while_connecting_leaves_no_file_open(loop):
    async def main() -> tuple[int, int]:
        async with FakeUpstream() as upstream:
            await lost_files(upstream)
            upstream.hang_up()
            await asyncio.sleep(0.05)
            before = len(os.listdir("/proc/self/fd"))
            await lost_files(upstream)
            upstream.hang_up()
            await asyncio.sleep(0.05)
            return before, len(os.listdir("/proc/self/fd"))

    with asyncio.Runner(loop_factory=loop) as runner:
        before, after = runner.run(main())
    assert after == before
