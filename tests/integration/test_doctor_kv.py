"""`foretold doctor` and the KV that nodes share with edges: read it, say what is wrong, write nothing."""

from __future__ import annotations

import asyncio

import pytest

from foretold.contract.key import record_name
from foretold.contract.record import pack
from foretold.doctor.finding import Note
from foretold.doctor.shared import shared_store
from foretold.stores.cloudflare.api import Value
from tests.fakes.cloudflare_api import TOKEN
from tests.fakes.records import record
from tests.kv import NAMESPACE_ID, an_account_with_kv, tier_of
from tests.worlds import begun, text, verdict, world_of

MEMORY = '[[tiers]]\nstore = "memory"\nlimit = "4 MiB"\n'


@pytest.fixture
async def there(monkeypatch):
    """An account, and a node's way to its namespace."""
    monkeypatch.setenv("KV_TOKEN", TOKEN)
    async with an_account_with_kv() as (account, api):
        yield account, api


async def looked(account, tmp_path, **tier: str) -> list[Note]:
    """The check runs a loop of its own, so it has a thread of its own here."""
    world = world_of(tmp_path, MEMORY + tier_of(account, **tier))
    return await asyncio.to_thread(lambda: list(shared_store(world)))


async def kept(api, secret: bytes) -> None:
    one = record()
    await api.put_all([Value(record_name(one.namespace, one.key), pack(one, secret), None)])


async def test_a_namespace_that_can_be_read_is_well(there, tmp_path):
    account, _ = there
    begun(tmp_path)

    notes = await looked(account, tmp_path, deadline="10s")

    assert verdict(notes) == "ok"
    assert f"KV namespace {NAMESPACE_ID} was read in" in text(notes)
    assert account.things.namespace("PredictionCache").values == {}


async def test_records_of_this_deployment_are_well(there, tmp_path):
    account, api = there
    await kept(api, begun(tmp_path).secret())

    notes = await looked(account, tmp_path, deadline="10s")

    assert verdict(notes) == "ok"
    assert "what lies there is sealed with this node's secret" in text(notes)


async def test_a_record_of_another_deployment_is_a_fault_and_no_secret_is_shown(there, tmp_path):
    account, api = there
    own = begun(tmp_path).secret()
    await kept(api, bytes(reversed(own)))

    notes = await looked(account, tmp_path, deadline="10s")

    assert verdict(notes) == "fault"
    assert "not sealed with this node's secret: nothing is shared" in text(notes)
    assert own.hex() not in text(notes)


async def test_a_token_that_is_not_taken_is_a_fault_that_says_what_it_needs_and_not_what_it_is(
    there, tmp_path, monkeypatch
):
    account, _ = there
    monkeypatch.setenv("KV_TOKEN", "v1.0-another-token")

    notes = await looked(account, tmp_path)

    assert verdict(notes) == "fault"
    assert "needs Workers KV Storage, Edit" in text(notes)
    assert "another-token" not in text(notes)


async def test_a_namespace_that_is_not_there_is_a_fault(there, tmp_path):
    account, _ = there
    account.things.namespaces.clear()

    notes = await looked(account, tmp_path)

    assert verdict(notes) == "fault"
    assert "compare account_id and namespace_id" in text(notes)


def test_a_node_without_such_a_tier_asks_nobody(tmp_path):
    assert verdict(list(shared_store(world_of(tmp_path, MEMORY)))) == "skipped"
