from __future__ import annotations

from foretold.observe.summing import _STANDINGS, ended, summed
from foretold.tiers.breaker import Standing


def told(count: int, **more: object) -> dict:
    tiers = [
        {"name": "memory", "reading": "working", "hits": count, "held_bytes": 10, "limit_bytes": 100},
        {
            "name": "disk",
            "reading": "left out" if count == 2 else "slow",
            "hits": count,
            "held_bytes": 10 + count,
            "limit_bytes": 100,
        },
    ]
    return {
        "version": "1",
        "received": count,
        "took_ms": {"hit": count / 3},
        "at_most_ms": [1, 2],
        "times": {"hit": [count, 0]},
        "mode": "serve",
        "routes": {},
        "flights": 1,
        "tasks": 4,
        "tiers": tiers,
    } | more


def test_counts_add_up_and_sizes_of_what_is_shared_do_not():
    both = summed([told(1), told(2)])

    assert both["received"] == 3
    assert both["times"] == {"hit": [3, 0]}
    assert both["flights"] == 2
    assert both["tiers"][0] == {"name": "memory", "reading": "working", "hits": 3, "held_bytes": 20, "limit_bytes": 200}
    assert both["tiers"][1] == {"name": "disk", "reading": "left out", "hits": 3, "held_bytes": 12, "limit_bytes": 100}


def test_a_tier_stands_as_badly_as_it_does_for_the_worst_off():
    assert summed([told(1), told(2), told(1)])["tiers"][1]["reading"] == "left out"


def test_every_way_a_tier_can_stand_is_known():
    assert set(_STANDINGS) == {standing.value for standing in Standing} | {"slow"}


def test_what_is_no_count_stays():
    both = summed([told(1), told(2)])

    assert (both["version"], both["mode"], both["at_most_ms"]) == ("1", "serve", [1, 2])
    assert list(both) == list(told(1))


def test_a_route_that_only_one_has_met_counts():
    both = summed([told(1, routes={"a": {"hit": 1}}), told(1, routes={"b": {"miss": 2}, "a": {"miss": 1}})])

    assert both["routes"] == {"a": {"hit": 1, "miss": 1}, "b": {"miss": 2}}


def test_one_that_ended_has_done_what_it_did_and_holds_nothing():
    both = summed([told(1), ended(told(2))])

    assert both["received"] == 3
    assert both["flights"] == 1
    assert both["tiers"][0]["held_bytes"] == 10


def test_one_without_the_disk_counts_too():
    alone = told(5)
    alone["tiers"] = alone["tiers"][:1]

    assert summed([alone, told(1)])["tiers"][1]["hits"] == 1
