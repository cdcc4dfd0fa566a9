from __future__ import annotations

import gc

from foretold.contract.controls import NONE
from foretold.contract.query import Query
from foretold.halves import Halves
from foretold.memo import LONGEST_BODY_KEPT, Head, Memo, Named
from foretold.ports import Request


def head(**fields: str) -> Head:
    return Head(Request("POST", "/", "", tuple(fields.items())), None, "local:", None, NONE)


def named(model: str = "m") -> Named:
    query = Query(namespace="n", operation="chat", model=model, revision="r", input="i")
    return Named(
        key="k",
        query=query,
        namespaces=None,
        route=None,
        controls=NONE,
        method="POST",
        is_safe=False,
        streamed=False,
        usage=True,
        if_none_match=None,
        place=(False, True, False, None, None),
    )


def test_a_body_is_known_only_within_its_head():
    memo, one, other, name = Memo(), head(), head(), named()

    memo.keep_named(one, b"body", name)

    assert memo.named(one, b"body") is name
    assert memo.named(other, b"body") is None
    assert memo.named(one, b"bodY") is None


def test_long_bodies_are_told_apart_by_every_byte_and_their_length():
    memo, at, name = Memo(), head(), named()
    long = b"x" * (LONGEST_BODY_KEPT + 1)

    memo.keep_named(at, long, name)

    assert memo.named(at, long) is name
    assert memo.named(at, long + b"x") is None
    assert memo.named(at, long[:-1] + b"y") is None


def test_a_short_body_is_never_taken_for_the_digest_of_a_long_one():
    memo, at = Memo(), head()
    long = b"x" * (LONGEST_BODY_KEPT + 1)
    memo.keep_named(at, long, named())

    length, digest = memo._mark(long)

    assert memo.named(at, digest) is None
    assert length == len(long)


def test_clearing_forgets_heads_and_bodies():
    memo, at = Memo(), head()
    memo.keep_head("raw", at)
    memo.keep_named(at, b"body", named())

    memo.clear()

    assert memo.head("raw") is None
    assert memo.named(at, b"body") is None


def test_heads_are_bounded_by_their_bytes():
    memo = Memo(head_bytes=2**20, body_bytes=2**20)

    heads = [head(odd="x" * 30_000) for _ in range(100)]
    for i, one in enumerate(heads):
        memo.keep_head(i, one)

    assert 0 < sum(memo.head(i) is not None for i in range(100)) <= 8


def test_what_is_remembered_of_a_body_keeps_no_forgotten_head_in_memory():
    memo, at = Memo(), head()
    memo.keep_named(at, b"body", named())
    referrers_with = len(gc.get_referrers(at))

    memo.clear()

    assert len(gc.get_referrers(at)) == referrers_with


def test_a_name_that_a_caller_made_long_is_not_remembered():
    memo, at = Memo(), head()

    memo.keep_named(at, b"body", named(model="m" * 2_000_000))

    assert memo.named(at, b"body") is None


def test_what_is_used_stays_and_the_sum_of_costs_is_bounded():
    halves: Halves[int] = Halves(100)

    for i in range(1000):
        halves.put(i, i, cost=1)
        assert halves.get(0) == 0
        assert len(halves) <= 100


def test_what_is_not_used_is_forgotten():
    halves: Halves[int] = Halves(10)

    for i in range(20):
        halves.put(i, i, cost=1)

    assert halves.get(0) is None
    assert halves.get(19) == 19


def test_what_costs_more_than_half_is_not_taken():
    halves: Halves[int] = Halves(10)

    halves.put("large", 1, cost=6)

    assert halves.get("large") is None
