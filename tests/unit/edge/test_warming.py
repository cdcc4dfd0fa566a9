"""Which records go to the edge's KV, in which order, and what becomes of them on the way."""

from __future__ import annotations

import msgspec
import pytest

from foretold.config.settings import RouteSettings
from foretold.contract.record import Record, open_sealed, pack
from foretold.edge.warming import Choice, choose, push
from foretold.errors import EdgeError, StoreError
from foretold.ports import Table
from tests.kv import an_account_with_kv

SECRET = bytes(32)
NOW_MS = 1_764_500_000_000
TABLE = Table({"*": "g"})
BASE = Record(
    key="0" * 64,
    namespace="a" * 64,
    operation="chat",
    model="m",
    revision="openai",
    kind="answer",
    made_ms=NOW_MS - 1000,
    asked_ms=NOW_MS - 2000,
    fresh_s=3600,
    stale_while_revalidate_s=0,
    stale_if_error_s=0,
    status=200,
    content_type="application/json",
    headers=(),
    shape="whole",
    has=(),
    took_ms=100,
    tags={"*": "g", "model:m": ""},
    body=b"{}",
)


class Disk:
    """What a node keeps, by key."""

    def __init__(self, **records: dict):
        self.blobs: dict[str, bytes] = {}
        for name, changes in records.items():
            record = msgspec.structs.replace(BASE, key=name.ljust(64, "0"), **changes)
            self.blobs[name] = pack(record, SECRET)

    def chosen(self, choice=None, table=TABLE):
        return choose(self.blobs, self.blobs.get, choice or Choice(), secret=SECRET, table=table, now_ms=NOW_MS)

    def names(self, **choice):
        return [pick.stored_as for pick in self.chosen(Choice(**choice)).picks]


def test_the_newest_come_first_and_no_more_than_the_limit():
    disk = Disk(old={"made_ms": NOW_MS - 9000}, new={"made_ms": NOW_MS - 10}, mid={"made_ms": NOW_MS - 500})

    assert disk.names() == ["new", "mid", "old"]
    assert disk.names(limit=2) == ["new", "mid"]
    assert disk.chosen(Choice(limit=2)).matched == 3


def test_or_those_that_took_longest():
    assert Disk(quick={"took_ms": 1}, slow={"took_ms": 9000}).names(order="slowest") == ["slow", "quick"]


def test_models_may_be_patterns_and_any_of_them_will_do():
    disk = Disk(a={"model": "gpt-4.1"}, b={"model": "gpt-5"}, c={"model": "other"})

    assert sorted(disk.names(models=("gpt-*",))) == ["a", "b"]
    assert sorted(disk.names(models=("gpt-5", "other"))) == ["b", "c"]


def test_all_tags_must_be_there():
    both = {"*": "g", "tag:x:one": "", "tag:x:two": ""}
    disk = Disk(a={"tags": both}, b={"tags": {"*": "g", "tag:x:one": ""}})

    assert disk.names(tags=("tag:x:one", "tag:x:two")) == ["a"]


@pytest.mark.parametrize(
    ("route", "wanted"),
    [
        (RouteSettings(name="openai", models=("*",), upstream="u"), ["chat"]),
        (RouteSettings(name="other", models=("*",), upstream="u", revision="v2"), ["versioned"]),
        (RouteSettings(name="local", models=("small",), model="small"), ["local"]),
        (RouteSettings(name="classify", kind="json", path="/classify*", upstream="u"), ["declared"]),
    ],
    ids=lambda value: value.name if isinstance(value, RouteSettings) else "",
)
def test_a_route_has_the_records_of_its_model_or_revision(route, wanted):
    disk = Disk(
        chat={},
        versioned={"revision": "v2"},
        local={"model": "small", "revision": "f" * 64},
        declared={"operation": "json /classify/x", "revision": "classify", "model": ""},
    )

    assert disk.names(route=route) == wanted


def test_what_is_dead_purged_negative_or_broken_stays_and_is_counted():
    disk = Disk(
        dead={"made_ms": NOW_MS - 4_000_000},
        purged={"tags": {"*": "before"}},
        negative={"kind": "negative", "status": 404},
        good={},
    )
    disk.blobs["broken"] = b"no record"
    found = disk.chosen()

    assert [pick.stored_as for pick in found.picks] == ["good"]
    assert (found.matched, found.dead, found.purged, found.unreadable) == (3, 1, 1, 1)


def test_a_tag_purged_elsewhere_counts():
    assert Disk(a={}).chosen(table=Table({"*": "g", "model:m": "new"})).purged == 1


async def pushed(disk, api, *, blobs=None, told=None):
    read = (disk.blobs if blobs is None else blobs).get
    tell = (lambda done, total: None) if told is None else lambda done, total: told.append((done, total))
    return await push(disk.chosen().picks, read, api, secret=SECRET, now_ms=lambda: NOW_MS, tell=tell)


async def test_they_are_in_kv_as_they_are_under_the_contracts_names_until_a_minute_past_their_end():
    disk = Disk(a={}, b={})
    told: list[tuple[int, int]] = []
    async with an_account_with_kv() as (account, api):
        done = await pushed(disk, api, told=told)
        held = account.things.namespace("PredictionCache")

        assert done.records == 2
        assert {open_sealed(v[0], SECRET).key[0] for v in held.values.values()} == {"a", "b"}
        assert sorted(held.values) == [f"foretold/1/{'a' * 64}/{name.ljust(64, '0')}" for name in "ab"]
        assert len(account.writes) == 1
        assert b'"expiration_ttl":3659' in account.writes[0].body
    assert told[-1][0] == told[-1][1] == sum(len(blob) for blob in disk.blobs.values())


async def test_many_go_in_several_calls(monkeypatch):
    monkeypatch.setattr("foretold.edge.warming._BATCH_RECORDS", 2)
    disk = Disk(**{f"n{i}": {} for i in range(5)})
    told: list[tuple[int, int]] = []
    async with an_account_with_kv() as (account, api):
        done = await pushed(disk, api, told=told)

        assert done.records == 5
        assert len(account.writes) == 3
    assert [d for d, _ in told] == sorted(d for d, _ in told)


async def test_what_went_away_meanwhile_is_counted_and_the_rest_goes():
    disk = Disk(a={}, b={})
    async with an_account_with_kv() as (account, api):
        done = await pushed(disk, api, blobs={"a": disk.blobs["a"]})

    assert (done.records, done.gone) == (1, 1)


async def test_what_kv_refuses_is_counted():
    disk = Disk(a={})
    async with an_account_with_kv(now_s=lambda: 1000.0) as (_, api):
        await pushed(disk, api)
        again = await pushed(disk, api)

    assert (again.records, again.refused) == (0, 1)


async def test_a_kv_that_fails_is_told_with_how_far_it_came(monkeypatch):
    monkeypatch.setattr("foretold.edge.warming._BATCH_RECORDS", 1)
    disk = Disk(a={}, b={})
    async with an_account_with_kv() as (account, api):
        account.fail(2, status=500, code=10000)

        with pytest.raises(EdgeError, match=r"1 of 2 records are pushed, then KV refused a call .*: run this again"):
            await pushed(disk, api)


def test_a_disk_that_cannot_be_read_is_counted_not_raised():
    def broken(name):
        raise StoreError("the disk store is closed")

    found = choose(["a"], broken, Choice(), secret=SECRET, table=TABLE, now_ms=NOW_MS)

    assert found.unreadable == 1
