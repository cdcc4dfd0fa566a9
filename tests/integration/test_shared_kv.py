"""Nodes on several machines and one KV: both show each other's hits, and a purge on either reaches the other."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec
import pytest

from foretold.contract.generations import EVERYTHING, generation_name
from foretold.contract.key import record_name
from foretold.contract.record import Record, open_sealed, pack
from tests.kv import NAMESPACE_ID, an_account_with_kv, tier_of
from tests.running import in_front_of, running
from tests.waiting import until

SECRET = bytes(range(32))
MEMORY = '[[tiers]]\nstore = "memory"\nlimit = "4 MiB"\n'
RECORDS = "foretold/1/"
GENERATIONS = "foretold/1/generation/"


class Machines:
    def __init__(self, account, folder, upstream, stack):
        self.account = account
        self._folder = folder
        self._upstream = upstream
        self._stack = stack

    @property
    def kv(self):
        return self.account.things.namespace("PredictionCache")

    @property
    def records(self) -> list[str]:
        return [name for name in self.kv.values if not name.startswith(GENERATIONS)]

    async def start(self, name: str, **tier: str):
        """A machine's node: one secret for all, else nothing in common but KV."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        (folder / "secret").write_text(SECRET.hex())
        settings = in_front_of(self._upstream.url, MEMORY + tier_of(self.account, **tier))
        return await self._stack.enter_async_context(running(settings, folder))


@pytest.fixture
async def machines(tmp_path, upstream, monkeypatch):
    monkeypatch.setenv("KV_TOKEN", "v1.0-a-token-of-the-tests")
    async with an_account_with_kv() as (account, _), AsyncExitStack() as stack:
        yield Machines(account, tmp_path, upstream, stack)


async def test_what_one_node_was_told_another_knows_under_the_contracts_name(machines, upstream):
    here, there = await machines.start("here"), await machines.start("there")
    first = await here.chat("hello")
    await here.node.keeping.flush()
    second = await there.chat("hello")

    (name,) = machines.records
    record = open_sealed(machines.kv.values[name][0], SECRET)
    assert name == record_name(record.namespace, record.key)
    assert not first.is_hit
    assert second.is_hit
    assert second.body == first.body
    assert len(upstream.calls) == 1


async def test_a_purge_at_one_node_reaches_the_other(machines):
    here, there = await machines.start("here"), await machines.start("there", read_purges="100ms")
    await here.chat("hello")
    await here.node.keeping.flush()
    assert (await there.chat("hello")).is_hit

    purged = await here.purge(model="m")

    assert purged.status == 200
    await until(lambda: there.node.generations.now().get("model:m") is not None)
    assert not (await there.chat("hello")).is_hit


async def test_a_purge_of_everything_at_an_edge_reaches_a_node(machines):
    here = await machines.start("here", read_purges="100ms")
    await here.chat("hello")
    assert (await here.chat("hello")).is_hit

    machines.kv.values[generation_name(EVERYTHING)] = (b"0123456789abcdef", {})

    await until(lambda: here.node.generations.now().get(EVERYTHING) == "0123456789abcdef")
    assert not (await here.chat("hello")).is_hit


async def test_a_record_is_purged_by_key_here_and_in_kv(machines):
    here = await machines.start("here")
    first = await here.chat("hello")
    await here.node.keeping.flush()
    assert len(machines.records) == 1

    purged = await here.purge(key=first.cache_status.partition('key="')[2].partition('"')[0])

    assert purged.status == 200
    assert machines.records == []


async def test_a_record_by_key_that_is_in_kv_alone_is_said_to_be_left_there(machines):
    here, there = await machines.start("here"), await machines.start("there")
    first = await here.chat("hello")
    await here.node.keeping.flush()

    purged = await there.purge(key=first.cache_status.partition('key="')[2].partition('"')[0])

    assert purged.status == 500
    assert "cloudflare_kv" in purged.json["detail"]
    assert len(machines.records) == 1


@pytest.mark.parametrize("trouble", ["hangs", "refuses", "cuts", "garbage"])
async def test_whatever_kv_does_every_answer_is_right_and_comes(machines, trouble, upstream):
    here = await machines.start("here", deadline="50ms")
    account = machines.account
    account.is_hanging = trouble == "hangs"
    account.is_cutting = trouble == "cuts"
    account.garbage = b"no record at all" if trouble == "garbage" else None
    if trouble == "refuses":
        account.calls_left = 0

    answers = [await here.chat(f"hello {i}") for i in range(8)]
    account.is_hanging = False

    assert [a.status for a in answers] == [200] * 8
    assert [a.is_hit for a in answers] == [False] * 8
    assert len({a.text for a in answers}) == len(upstream.calls) == 8


async def test_a_foreign_record_under_the_asked_name_is_a_miss(machines):
    here = await machines.start("here")
    await here.chat("mine")
    await here.node.keeping.flush()
    (name,) = machines.records
    there = await machines.start("there")
    other = await there.chat("other")
    await there.node.keeping.flush()
    (theirs,) = [n for n in machines.records if n != name]
    machines.kv.values[name] = machines.kv.values[theirs]

    elsewhere = await machines.start("elsewhere")
    answer = await elsewhere.chat("mine")

    assert not answer.is_hit
    assert answer.text != other.text


async def test_a_pointer_of_an_edge_is_a_miss_and_stays(machines):
    here = await machines.start("here")
    await here.chat("large at the edge")
    await here.node.keeping.flush()
    (name,) = machines.records
    record = open_sealed(machines.kv.values[name][0], SECRET)
    pointer = pack(_as_pointer(record), SECRET)
    machines.kv.values[name] = (pointer, {})

    there = await machines.start("there")
    answer = await there.chat("large at the edge", {"cache-control": "only-if-cached"})

    assert answer.status == 504
    assert machines.kv.values[name][0] == pointer
    tier = (await there.stats())["tiers"][1]
    assert (tier["hits"], tier["misses"], tier["errors"]) == (0, 1, 0)


async def test_the_token_stands_in_no_answer(machines):
    here = await machines.start("here")
    await here.chat("hello")
    said = str(await here.stats()) + (await here.send("GET", "/-/health")).body.decode()

    assert NAMESPACE_ID not in said
    assert "v1.0-a-token" not in said


def _as_pointer(record: Record) -> Record:
    return msgspec.structs.replace(record, kind="pointer", body=b"")
