"""A `cache` member of a body may have any number of members: they are read in one pass."""

from __future__ import annotations

from foretold.contract.aliases import body_controls
from foretold.contract.controls import Controls

MANY = {f"x{n}": n for n in range(100_000)}


def test_members_that_cannot_be_read_cost_no_wish_each(monkeypatch):
    joined = []
    stricter = Controls.stricter
    monkeypatch.setattr(Controls, "stricter", lambda one, other: joined.append(other) or stricter(one, other))

    settled = body_controls({**MANY, "no-cache": True, "ttl": 5})

    assert settled.ignored_aliases == tuple(f"cache.x{n}" for n in range(8))
    assert (settled.no_cache, settled.store_ttl_s) == (True, 5)
    assert len(joined) == 3


def test_wishes_among_members_that_cannot_be_read_all_count():
    settled = body_controls({"namespace": "n", "ttl": "soon", **MANY, "s-maxage": 9, "no-store": True})

    assert settled == Controls(
        no_store=True,
        max_age_s=9,
        children=("n",),
        ignored_aliases=("cache.ttl", *(f"cache.x{n}" for n in range(7))),
    )
