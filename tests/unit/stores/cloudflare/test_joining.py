"""The generations of a machine and those in KV become one table, and no purge is ever undone (rule G1)."""

from __future__ import annotations

import random

import pytest

from foretold.contract.generations import EVERYTHING, generation_name
from foretold.ports import Table
from foretold.stores.cloudflare import joining
from foretold.stores.cloudflare.joining import SHOWS_OLD_S, disputed, renewed, settled, to_send

ALL, TAG = generation_name(EVERYTHING), generation_name("model:m")


def merged(table, found, *, now_s=1000.0):
    return joining.merged(table, found, now_s=now_s)


def sent(table, told, *, now_s=1000.0):
    return joining.sent(table, told, now_s=now_s)


def told(table, found, **more):
    return {one.name: one.value for one in to_send(table, found, **more)}


def test_an_empty_kv_is_told_what_the_machine_has():
    table = {"*": "a", "model:m": "b"}

    sending = to_send(merged(table, {}), {})
    after = sent(table, sending)

    assert {one.name: one.value for one in sending} == {ALL: "a", TAG: "b"}
    assert to_send(merged(after, {ALL: "a", TAG: "b"}), {ALL: "a", TAG: "b"}) == []


def test_a_machine_that_joins_takes_over_what_is_there_and_overwrites_nothing():
    table = merged({"*": "ours", "model:m": "ours"}, {ALL: "theirs", TAG: "theirs"})

    assert (table["*"], table["model:m"]) == ("theirs", "theirs")
    assert to_send(table, {ALL: "theirs", TAG: "theirs"}) == []


def test_a_tag_that_only_an_edge_knows_counts_by_its_name():
    table = Table(merged({"*": "a"}, {ALL: "a", TAG: "b"}))

    assert table.get("model:m") == "b"
    assert table.get("model:other", "") == ""


def test_a_purge_here_is_told_and_kv_s_older_value_does_not_come_back():
    table = renewed(merged({"*": "a"}, {ALL: "a", TAG: "old"}), {"model:m": "new"})
    while_kv_shows_the_old = merged(table, {ALL: "a", TAG: "old"})
    after = sent(table, to_send(table, {TAG: "old"}))
    still_the_old = merged(after, {ALL: "a", TAG: "old"})

    assert while_kv_shows_the_old["model:m"] == still_the_old["model:m"] == "new"
    assert told(while_kv_shows_the_old, {TAG: "old"}) == {TAG: "new"}
    assert told(still_the_old, {ALL: "a", TAG: "old"}) == {}


def test_a_purge_at_an_edge_after_ours_is_taken_over():
    table = sent(t := renewed({"*": "a"}, {"model:m": "ours"}), to_send(t, {}))
    table = merged(table, {ALL: "a", TAG: "ours"})
    table = merged(table, {ALL: "a", TAG: "theirs"})

    assert table["model:m"] == "theirs"
    assert merged(table, {ALL: "a", TAG: "ours"})["model:m"] == "theirs"


def test_what_was_never_seen_and_comes_just_after_ours_was_told_counts_once_kv_must_show_the_newest():
    table = sent(t := renewed({"*": "a"}, {"model:m": "ours"}), to_send(t, {}), now_s=1000)

    at_once = merged(table, {ALL: "a", TAG: "other"}, now_s=1000 + SHOWS_OLD_S - 1)
    later = merged(at_once, {ALL: "a", TAG: "other"}, now_s=1000 + SHOWS_OLD_S)

    assert at_once["model:m"] == "ours"
    assert merged(at_once, {ALL: "a", TAG: "ours"}, now_s=1010)["model:m"] == "ours"
    assert later["model:m"] == "other"


def test_what_both_sides_hold_otherwise_is_purged_once_more():
    table = merged({"*": "a", "model:m": "first"}, {ALL: "a", TAG: "second"})
    found = {ALL: "a", TAG: "first"}

    after = settled(table, dict.fromkeys(disputed(table, found), "third"))

    assert disputed(table, found) == {TAG}
    assert after["model:m"] == "third"
    assert told(after, found) == {TAG: "third"}
    assert disputed(after, found) == set()


def test_a_tag_purged_again_while_the_first_is_being_told_is_told_again():
    first = renewed({"*": "a"}, {"model:m": "one"})
    second = renewed(first, {"model:m": "two"})

    after = sent(second, to_send(first, {}))

    assert told(after, {ALL: "a"})[TAG] == "two"


def test_a_purge_by_a_process_that_knows_no_kv_is_told():
    table = {**merged({"*": "a"}, {ALL: "a", TAG: "old"}), "*": "renewed", "model:m": "new"}
    table.pop(TAG)
    found = {ALL: "a", TAG: "old"}

    after = merged(table, found)

    assert (after["*"], after["model:m"]) == ("renewed", "new")
    assert told(after, found) == {ALL: "renewed", TAG: "new"}


def test_what_kv_has_lost_it_is_told_again():
    table = merged({"*": "a"}, {ALL: "a", TAG: "b"})

    assert told(table, {}) == {}
    assert told(table, {}, lost={ALL, TAG}) == {ALL: "a", TAG: "b"}


class LateKv:
    """A tag in a KV that shows a reader what was written up to a minute ago, but never goes back."""

    def __init__(self, rng):
        self._rng = rng
        self._written: list[tuple[float, str]] = []
        self._shown = 0

    def put(self, value: str, now_s: float) -> None:
        self._written.append((now_s, value))

    def read(self, now_s: float) -> dict[str, str]:
        last = len(self._written) - 1
        may = [at for at in range(self._shown, last) if now_s - self._written[at + 1][0] < SHOWS_OLD_S]
        self._shown = self._rng.choice([*may, max(last, 0)])
        return {ALL: "a", **({TAG: self._written[self._shown][1]} if self._written else {})}


@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_order_a_value_that_was_replaced_never_counts_again(seed):
    rng = random.Random(seed)
    kv, now_s, made = LateKv(rng), 1000.0, 0
    table: dict[str, str] = {"*": "a"}
    gone: set[str] = set()

    def tell(table):
        sending = [one for one in to_send(table, {ALL: "a"}) if one.name == TAG]
        for one in sending:
            kv.put(one.value, now_s)
        return sent(table, sending, now_s=now_s)

    for _ in range(60):
        now_s += rng.choice([1, 5, 30])
        before = table.get("model:m") or table.get(TAG)
        match rng.randrange(4):
            case 0:  # purged here
                made += 1
                table = renewed(table, {"model:m": f"node{made}"})
            case 1:  # purged at an edge
                made += 1
                kv.put(f"edge{made}", now_s)
            case 2:
                table = merged(table, kv.read(now_s), now_s=now_s)
            case 3:
                table = tell(table)
        now = table.get("model:m") or table.get(TAG)
        if now != before and before is not None:
            gone.add(before)
        assert now not in gone

    # When all is quiet, both sides agree.
    for _ in range(3):
        now_s += SHOWS_OLD_S
        table = tell(merged(table, kv.read(now_s), now_s=now_s))
    assert (table.get("model:m") or table.get(TAG)) == kv.read(now_s).get(TAG)
