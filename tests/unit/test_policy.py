from __future__ import annotations

import pytest

from foretold.contract.controls import NONE, Controls
from foretold.contract.freshness import Lifetimes
from foretold.policy import lifetimes, permit
from foretold.ports import Asked

ASKED = Asked("chat", "m", "POST", "/chat/completions", input="0" * 64)


def test_a_plain_query_may_be_read_joined_and_written():
    given = permit(ASKED, NONE, route_stores=True)

    assert (given.may_read, given.may_join, given.may_write) == (True, True, True)
    assert given.forwarded == "uri-miss"


def test_no_cache_skips_the_read_and_still_writes():
    given = permit(ASKED, Controls(no_cache=True), route_stores=True)

    assert (given.may_read, given.may_join, given.may_write) == (False, False, True)
    assert given.forwarded == "request"


@pytest.mark.parametrize(
    ("asked", "controls", "stores", "detail"),
    [
        (ASKED, Controls(no_store=True), True, "no-store"),
        (ASKED, Controls(no_store=True, no_cache=True), True, "no-store"),
        (ASKED, NONE, False, "route-stores-nothing"),
        (Asked("", "", "POST", "/x", passes="undeclared"), NONE, True, "undeclared"),
        (
            Asked("chat", "m", "POST", "/x", passes="unkeyable-number"),
            Controls(no_store=True),
            True,
            "unkeyable-number",
        ),
    ],
)
def test_a_pass_neither_reads_nor_joins_nor_writes_and_says_why(asked, controls, stores, detail):
    given = permit(asked, controls, route_stores=stores)

    assert given.is_pass
    assert not given.may_join
    assert given.forwarded == "bypass"
    assert given.detail == detail


@pytest.mark.parametrize(("ttl", "fresh"), [(None, 100), (0, 0), (50, 50), (100, 100), (200, 100)])
def test_a_caller_only_lowers_how_long_an_answer_is_fresh(ttl, fresh):
    of_route = Lifetimes(100, 200, 300)

    assert lifetimes(of_route, Controls(store_ttl_s=ttl)) == Lifetimes(fresh, 200, 300)


@pytest.mark.parametrize("controls", [NONE, Controls(no_cache=True)], ids=["plain", "no-cache"])
def test_on_a_route_that_does_not_collapse_nothing_is_joined_and_all_else_is_the_same(controls):
    usual = permit(ASKED, controls, route_stores=True)
    apart = permit(ASKED, controls, route_stores=True, route_collapses=False)

    assert not apart.may_join
    assert (apart.may_read, apart.may_write, apart.forwarded) == (usual.may_read, usual.may_write, usual.forwarded)
