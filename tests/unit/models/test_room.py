from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from foretold.models.manifest import SMOLLM2
from foretold.models.room import (
    Evict,
    Fits,
    Never,
    Resident,
    Size,
    Wait,
    decide,
    expired,
    making_way,
    next_expiry_s,
    refusals,
    together,
)


def resident(name: str, own_bytes: int, **members) -> Resident:
    return Resident(name=name, size=Size(own_bytes, ()), **members)


def size(own_bytes: int) -> Size:
    return Size(own_bytes, ())


sizes = st.builds(
    Size,
    st.integers(0, 100),
    st.lists(st.sampled_from([("a", 30), ("b", 50), ("c", 5)]), unique=True, max_size=2).map(tuple),
)


@st.composite
def residents(draw) -> list[Resident]:
    return [
        Resident(
            name=f"m{number}",
            size=draw(sizes),
            answering=draw(st.integers(0, 2)),
            last_used_s=draw(st.integers(0, 5)),
            is_pinned=draw(st.booleans()),
            is_leaving=draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


@given(residents(), sizes, st.integers(0, 400))
def test_what_is_loaded_after_a_decision_never_takes_more_than_the_budget(here, wanted, budget_bytes):
    match decide(here, wanted, budget_bytes=budget_bytes):
        case Fits():
            assert together([*(r.size for r in here), wanted]) <= budget_bytes
        case Evict(names) | Wait(names):
            stay = [r.size for r in here if r.name not in names and not r.is_leaving]
            assert together([*stay, wanted]) <= budget_bytes
        case Never():
            pinned = [r.size for r in here if r.is_pinned and not r.is_leaving]
            assert together([*pinned, wanted]) > budget_bytes


@given(residents(), sizes, st.integers(0, 400))
def test_nothing_busy_and_nothing_pinned_is_ever_evicted(here, wanted, budget_bytes):
    decision = decide(here, wanted, budget_bytes=budget_bytes)

    if isinstance(decision, Evict):
        assert decision.names
        assert not [r for r in here if r.name in decision.names and (r.answering or r.is_pinned or r.is_leaving)]
    if isinstance(decision, Wait):
        assert not [r for r in here if r.name in decision.names and (r.is_pinned or r.is_leaving)]


@given(residents(), sizes, st.integers(0, 400))
def test_of_the_idle_ones_nothing_goes_while_something_older_stays(here, wanted, budget_bytes):
    decision = decide(here, wanted, budget_bytes=budget_bytes)

    if isinstance(decision, Evict):
        gone = [r.last_used_s for r in here if r.name in decision.names]
        stay = [r.last_used_s for r in here if r.may_go and r.name not in decision.names]
        assert not stay or max(gone) <= min(stay)


def test_a_model_that_fits_needs_nobody_to_go():
    assert decide([resident("a", 40)], size(60), budget_bytes=100) == Fits()


def test_what_was_used_longest_ago_goes_first():
    here = [resident("new", 40, last_used_s=9), resident("old", 40, last_used_s=1)]

    assert decide(here, size(40), budget_bytes=100) == Evict(("old",))


def test_a_busy_model_is_waited_for_and_an_idle_one_goes_instead_if_that_is_enough():
    busy, idle = resident("busy", 50, answering=1), resident("idle", 50, last_used_s=9)

    assert decide([busy, idle], size(50), budget_bytes=100) == Evict(("idle",))
    assert decide([busy, idle], size(90), budget_bytes=100) == Wait(("idle", "busy"))


def test_what_is_leaving_already_is_waited_for_and_nothing_else_goes():
    here = [resident("leaving", 50, is_leaving=True), resident("idle", 50)]

    assert decide(here, size(50), budget_bytes=100) == Wait(())


def test_what_pins_leave_no_room_for_is_refused_with_both_numbers():
    here = [resident("pinned", 60, is_pinned=True), resident("idle", 30)]

    assert decide(here, size(50), budget_bytes=100) == Never(needed_bytes=50, left_bytes=40)


def test_files_that_models_share_count_once():
    shared = Size(10, (("same", 80),))
    here = [Resident(name="a", size=shared)]

    assert together([shared, shared]) == 100
    assert decide(here, shared, budget_bytes=100) == Fits()


def test_only_idle_models_expire():
    here = [
        resident("busy", 1, answering=1, expires_s=5),
        resident("pinned", 1, is_pinned=True, expires_s=5),
        resident("old", 1, expires_s=5),
        resident("later", 1, expires_s=8),
    ]

    assert expired(here, now_s=5) == ["old"]
    assert next_expiry_s(here) == 5
    assert next_expiry_s(here[:2]) == float("inf")


def test_models_over_the_budget_are_refused_by_name_with_both_numbers():
    pinned = replace(SMOLLM2, name="pinned")  # 98.4 MB of weights, and 140.8 MB of its own
    larger = replace(SMOLLM2, name="larger", context=8192)

    told = refusals([(larger, False), (pinned, True)], budget_bytes=400_000_000)

    assert len(told) == 1
    assert "'larger' needs 428 MB" in told[0]  # the weights are there already
    assert "leaves it 161 MB" in told[0]


def test_models_that_fit_one_after_the_other_are_not_refused():
    models = [(replace(SMOLLM2, name=name), False) for name in "abc"]

    assert refusals(models, budget_bytes=300_000_000) == []


def test_only_the_model_that_is_replaced_makes_way_though_it_is_pinned():
    both = [resident("old", 1, is_pinned=True), resident("other", 1, is_pinned=True)]

    freed = making_way(both, "old")

    assert [one.is_pinned for one in freed] == [False, True]
