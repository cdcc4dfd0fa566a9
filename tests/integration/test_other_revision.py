"""Who believes in another revision than answers is told so, whatever else would be told (rule U1)."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.fakes.upstream import whole
from tests.running import in_front_of, running

ROUTE = '[[routes]]\nname = "all"\nkind = "model"\nmodels = ["*"]\nupstream = "fake"\nrevision = "now"\n'
TIMES = '[cache]\nfresh = "1h"\nstale_while_revalidate = "0s"\n'
SAYS_SO = "; detail=other-revision"


def before(**headers: str) -> dict[str, str]:
    return {"foretold-revision": "before", **headers}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def node(upstream, tmp_path, clock):
    settings = in_front_of(upstream.url, TIMES + ROUTE)
    async with running(settings, tmp_path, now_ms=clock, monotonic_ms=clock) as node:
        yield node


async def test_it_is_no_part_of_the_key_and_is_told_on_misses_and_on_hits(node, upstream):
    miss = await node.chat("hello", headers=before())
    hit = await node.chat("hello", headers=before())
    again = await node.chat("hello", headers=before())
    right = await node.chat("hello", headers={"foretold-revision": "now"})
    silent = await node.chat("hello")

    assert all(one.cache_status.endswith(SAYS_SO) for one in (miss, hit, again))
    assert miss.status == 200
    assert [one.is_hit for one in (hit, again, right, silent)] == [True] * 4
    assert SAYS_SO not in right.cache_status + silent.cache_status
    assert len(upstream.calls) == 1
    assert upstream.calls[0].header("foretold-revision") is None


async def test_no_other_detail_takes_its_place(node, upstream, clock):
    await node.chat("hello")
    clock.forward(s=4000)
    missed = await node.chat("another", headers=before(**{"cf-aig-cache-ttl": "soon"}))
    upstream.on("m", lambda call, writer, serial: whole(writer, b"{}", status=500))
    stale = await node.chat("hello", headers=before())

    assert stale.is_hit
    assert stale.cache_status.endswith(SAYS_SO)
    assert missed.cache_status.endswith(SAYS_SO)


async def test_of_several_inputs_it_is_told_once_for_all(node):
    asked = {"model": "m", "input": ["a", "b"]}
    first = await node.post("/v1/embeddings", {**asked, "input": ["a"]}, headers=before())
    partial = await node.post("/v1/embeddings", asked, headers=before())
    hit = await node.post("/v1/embeddings", asked, headers=before())

    assert [one.status for one in (first, partial, hit)] == [200] * 3
    assert "fwd=partial" in partial.cache_status
    assert hit.is_hit
    assert all(one.cache_status.endswith(SAYS_SO) for one in (first, partial, hit))
