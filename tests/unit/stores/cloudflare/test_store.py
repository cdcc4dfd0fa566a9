"""What the store of KV does beyond the laws of all stores (tests/conformance)."""

from __future__ import annotations

import asyncio

import pytest

from foretold.errors import StoreError
from foretold.ports import Put
from tests.clock import Clock
from tests.kv import an_account_with_kv, kv_store


@pytest.fixture
def clock():
    return Clock()


async def test_many_deleted_at_once_are_one_call(clock):
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (account, api):
        store = kv_store(api, clock=clock)
        await store.put_many([Put(f"n{at}", b"x", 60) for at in range(100)])
        await asyncio.gather(*(store.delete(f"n{at}") for at in range(100)))

    assert [str(call).split()[0] for call in account.calls] == ["PUT", "POST"]
    assert account.things.namespace("PredictionCache").values == {}


async def test_writes_of_one_name_are_more_than_a_second_apart(clock):
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (_, api):
        store = kv_store(api, clock=clock)
        began_ms = clock.now_ms
        failed = [await store.put_many([Put("name", b"%d" % at, 60)]) for at in range(3)]
        found = await store.get("name")

    assert failed == [0, 0, 0]
    assert found == b"2"
    assert clock.now_ms - began_ms >= 2000


async def test_of_one_name_put_twice_at_once_the_last_counts(clock):
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (_, api):
        store = kv_store(api, clock=clock)
        failed = await store.put_many([Put("name", b"one", 60), Put("name", b"two", 60)])
        found = await store.get("name")

    assert (failed, found) == (0, b"two")


async def test_what_another_writer_was_first_with_is_counted_as_not_kept(clock):
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (_, api):
        ours, edges = kv_store(api, clock=clock), kv_store(api, clock=clock)
        await edges.put("n0", b"theirs", keep_s=60)
        failed = await ours.put_many([Put("n0", b"ours", 60), Put("n1", b"ours", 60)])
        with pytest.raises(StoreError, match="within the same second"):
            await kv_store(api, clock=clock).put("n1", b"third", keep_s=60)

    assert failed == 1


async def test_who_deletes_learns_that_it_failed(clock):
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (account, api):
        store = kv_store(api, clock=clock)
        account.fail(1, status=500, code=10000)
        ended = await asyncio.gather(store.delete("a"), store.delete("b"), return_exceptions=True)
        await store.delete("a")

    assert [type(error) for error in ended] == [StoreError, StoreError]


async def test_closing_tells_those_who_wait(clock):
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000, call_s=60) as (account, api):
        store = kv_store(api, clock=clock)
        account.is_hanging = True
        deleting = asyncio.create_task(store.delete("name"))
        await asyncio.sleep(0.01)
        later = asyncio.create_task(store.delete("other"))
        await asyncio.sleep(0)
        await store.close()
        ended = await asyncio.gather(deleting, later, return_exceptions=True)
        account.is_hanging = False

    assert [type(error) for error in ended] == [StoreError, StoreError]
