"""A tier in trouble below a node that serves: every query is answered, few wait, and all is counted."""

from __future__ import annotations

import asyncio
import time

import pytest

from foretold.answers.workshop import Workshop
from foretold.stores.memory import MemoryStore
from foretold.tiers.keeping import Keeping
from foretold.tiers.order import Tiers
from foretold.tiers.tier import Tier
from tests.fakes.store import TROUBLES, TroubledStore
from tests.running import Client, in_front_of, running


def put_below(client: Client, store: TroubledStore, *, deadline_s: float) -> Tier:
    """Gives a node this store as its only tier below a memory."""
    node = client.node
    tier = Tier(store, deadline_s=deadline_s, write_deadline_s=0.2)
    memory = MemoryStore(2**20, largest_bytes=2**20, now_ms=node._now_ms)
    secret = client.assembled.secret
    node.tiers = Tiers(memory, [tier], secret=secret, now_ms=node._now_ms)
    node.keeping = Keeping(node.tiers, secret=secret, largest_bytes=2**20, now_ms=node._now_ms, close_within_s=0.1)
    node.flying._keeping = node.keeping
    node.workshop = Workshop(node.tiers)
    return tier


@pytest.mark.parametrize("trouble", [*TROUBLES, "full"])
@pytest.mark.parametrize(("at_once", "deadline_s"), [(1, 0.5), (20, 1.5)])
async def test_every_query_is_answered_few_wait_and_all_is_counted(upstream, tmp_path, trouble, at_once, deadline_s):
    async with running(in_front_of(upstream.url, '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n'), tmp_path) as client:
        store = TroubledStore(now_ms=client.node._now_ms)
        tier = put_below(client, store, deadline_s=deadline_s)
        store.trouble = trouble

        async def timed(number: int) -> float:
            began_s = time.monotonic()
            answered = await client.chat(f"question {number}")
            assert answered.status == 200
            return time.monotonic() - began_s

        took_s = []
        for start in range(0, 40, at_once):
            took_s += await asyncio.gather(*(timed(number) for number in range(start, start + at_once)))
        hits = [await client.chat(f"question {number}") for number in range(40)]
        stats = await client.stats()
        metrics = await client.send("GET", "/-/metrics", headers=client.admin_headers)
        store.trouble = ""

    counts = tier.counts
    assert all(hit.is_hit for hit in hits)
    assert sum(seconds > deadline_s * 0.9 for seconds in took_s) <= 5
    assert max(took_s) < deadline_s + 1
    assert len(upstream.calls) == 40
    assert counts.lookups == counts.hits + counts.misses + counts.errors + counts.skipped
    row = stats["tiers"][1]
    assert row["reading"] == ("working" if trouble == "full" else "left out")
    told = f'foretold_tier_left_out{{side="reading",tier="far"}} {float(trouble != "full")}'
    assert told in metrics.body.decode()
