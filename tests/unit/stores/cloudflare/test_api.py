"""One KV namespace by its REST API, whatever the API does."""

from __future__ import annotations

import asyncio

import pytest

from foretold.errors import StoreError
from foretold.stores.cloudflare.api import LARGEST_BYTES, Value
from foretold.stores.cloudflare.budget import CALLS, RESERVE, SHARE, WINDOW_S, Budget
from tests.clock import Clock
from tests.fakes.cloudflare_api import TOKEN
from tests.kv import an_account_with_kv, api_to

PUT, GET = Value("name", b"value", 60), "name"


def some(count: int) -> list[Value]:
    return [Value(f"n{at}", b"%d" % at, 60) for at in range(count)]


async def failing(asked) -> str:
    with pytest.raises(StoreError) as told:
        await asked
    return str(told.value)


@pytest.mark.parametrize("token", ["wrong", "v1.0-of-somebody-else"])
async def test_a_wrong_token_is_told_with_what_it_needs_and_never_shown(token, caplog):
    async with an_account_with_kv() as (account, _):
        api = api_to(account, token=token)
        told = [await failing(api.get(GET)), await failing(api.put_all([PUT])), await failing(api.names(""))]
        await api.close()

    assert all("Workers KV Storage, Edit" in line for line in told)
    assert token not in "".join(told) + caplog.text


async def test_a_token_that_may_only_read_reads():
    async with an_account_with_kv() as (account, api):
        await api.put_all([PUT])
        account.things.tokens[TOKEN].permissions = {"Workers KV Storage Read"}
        found, told = await api.get(GET), await failing(api.put_all([PUT]))

    assert found == b"value"
    assert "Workers KV Storage, Edit" in told


async def test_what_opens_the_account_is_in_no_repr():
    async with an_account_with_kv() as (account, api):
        assert TOKEN not in f"{account.url} {api!r}"


async def test_a_namespace_that_is_not_there_is_no_miss():
    async with an_account_with_kv() as (account, api):
        account.things.namespaces.clear()
        told = await failing(api.get(GET))

    assert "compare account_id and namespace_id" in told


async def test_a_call_that_hangs_ends_in_time():
    async with an_account_with_kv(call_s=0.05) as (account, api):
        account.is_hanging = True
        told = await failing(api.get(GET))
        account.is_hanging = False

    assert told == "KV gave no answer within 0.05 s"


async def test_nobody_there_is_told():
    async with an_account_with_kv() as (account, _):
        api = api_to(account)
    told = await failing(api.get(GET))
    await api.close()

    assert "KV can't be reached" in told


async def test_a_value_that_breaks_off_is_an_error_not_half_a_value():
    async with an_account_with_kv() as (account, api):
        await api.put_all([Value("name", b"x" * 1000, 60)])
        account.is_cutting = True
        told = await failing(api.get(GET))

    assert told == "KV's answer broke off"


async def test_a_value_longer_than_any_is_not_read_to_its_end():
    async with an_account_with_kv() as (account, api):
        account.garbage = bytes(LARGEST_BYTES + 1)
        told = await failing(api.get(GET))

    assert "longer than" in told


async def test_a_list_that_is_no_answer_of_the_api_is_an_error():
    async with an_account_with_kv() as (account, api):
        account.pretend(at=1)
        first = await failing(api.names("foretold/"))
        account.pretend(at=1)
        second = await failing(api.texts(["name"]))

    assert "list of names" in first
    assert "bulk read" in second


async def test_after_a_429_nobody_calls_until_it_says():
    clock = Clock()
    async with an_account_with_kv(now_s=lambda: clock.now_ms / 1000) as (account, _):
        api = api_to(account, now_s=lambda: clock.now_ms / 1000)
        account.calls_left = 0
        await failing(api.get(GET))
        account.calls_left = 100
        told = await failing(api.get(GET))
        calls = len(account.calls)
        clock.forward(s=1)
        found = await api.get(GET)
        await api.close()

    assert told == "KV wants no calls for 1 s"
    assert calls == 1
    assert found is None


async def test_when_the_writes_of_the_day_are_used_up_it_reads_on_and_writes_after_midnight():
    clock = Clock(now_ms=1_764_500_000_000)
    to_midnight_s = 86_400 - clock.now_ms // 1000 % 86_400
    async with an_account_with_kv() as (account, _):
        api = api_to(account, wall_s=lambda: clock.now_ms / 1000)
        account.fail(1, status=429, code=10048, message="you have reached your KV put() limit for the day.")
        told = [await failing(api.put_all([PUT])), await failing(api.put_all([PUT]))]
        writes = len(account.writes)
        found = await api.get(GET)
        clock.forward(s=to_midnight_s)
        refused = await api.put_all([PUT])
        await api.close()

    assert set(told) == {"KV takes no more writes of this account today: again after midnight UTC"}
    assert (writes, found, refused) == (1, None, set())


async def test_more_than_a_call_may_hold_goes_in_several():
    async with an_account_with_kv() as (account, api):
        refused = await api.put_all(some(10_001))
        names = await api.names("n")
        texts = await api.texts(names[:101])

    assert refused == set()
    assert len(names) == 10_001
    assert texts == {name: name[1:] for name in names[:101]}
    calls = [(call.method, call.path.rpartition("/")[2]) for call in account.calls]
    assert calls.count(("PUT", "bulk")) == 2
    assert calls.count(("GET", "keys")) == 11
    assert calls.count(("POST", "get")) == 2


async def test_what_was_written_within_the_second_is_told_as_not_taken():
    async with an_account_with_kv(now_s=lambda: 0.0) as (_, api):
        first = await api.put_all(some(2))
        second = await api.put_all(some(3))

    assert (first, second) == (set(), {"n0", "n1"})


async def test_a_time_shorter_than_kv_takes_is_made_longer():
    async with an_account_with_kv(now_s=lambda: 0.0) as (account, api):
        refused = await api.put_all([Value("name", b"x", 1)])

    assert refused == set()
    assert account.things.namespace("PredictionCache").ends_s == {"name": 60.0}


async def test_a_cancelled_call_leaves_the_next_one_its_own_answer():
    async with an_account_with_kv() as (account, api):
        await api.put_all(some(2))
        account.is_hanging = True
        asking = asyncio.create_task(api.get("n0"))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        account.is_hanging = False
        found = await api.get("n1")

    assert found == b"1"


def test_reads_leave_calls_for_what_must_be_written():
    clock = Clock()
    budget = Budget(now_s=lambda: clock.now_ms / 1000)
    most = CALLS * SHARE

    reads = sum(budget.take_to_read() for _ in range(CALLS))
    writes = sum(budget.take() for _ in range(CALLS))

    assert reads == most * (1 - RESERVE)
    assert writes == most * RESERVE


def test_the_calls_come_back_evenly_and_never_more_than_the_accounts_share():
    clock = Clock()
    budget = Budget(processes=3, now_s=lambda: clock.now_ms / 1000)

    at_once = sum(budget.take() for _ in range(CALLS))
    clock.forward(s=WINDOW_S / 10)
    later = sum(budget.take() for _ in range(CALLS))
    clock.forward(s=WINDOW_S * 10)
    after_a_rest = sum(budget.take() for _ in range(CALLS))

    assert at_once == after_a_rest == CALLS * SHARE / 3
    assert later == at_once / 10


async def test_without_calls_left_nothing_is_asked():
    async with an_account_with_kv() as (account, _):
        budget = Budget(now_s=lambda: 0.0)
        while budget.take():
            pass
        api = api_to(account, budget=budget)
        told = [await failing(api.get(GET)), await failing(api.put_all([PUT]))]
        await api.close()

    assert all("used up for the moment" in line for line in told)
    assert account.calls == []
