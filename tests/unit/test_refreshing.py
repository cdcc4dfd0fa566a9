"""One refresh of a key at a time, not soon again after one that failed, and not too many together (rule F1)."""

from __future__ import annotations

import pytest

from foretold.flights.refreshing import MOST_AT_ONCE, MOST_RESTING, TOGETHER_BYTES, Refreshing
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def refreshing(clock: Clock) -> Refreshing:
    return Refreshing(clock)


def test_a_key_that_is_being_refreshed_is_not_refreshed_twice(refreshing):
    refreshing.begins("a", held_bytes=10)

    assert not refreshing.may_begin("a")
    assert refreshing.may_begin("b")


def test_a_key_may_be_refreshed_again_at_once_after_one_that_was_kept(refreshing):
    refreshing.begins("a", held_bytes=10)
    refreshing.ends("a", is_kept=True)

    assert refreshing.may_begin("a")
    assert (refreshing.refreshed, refreshing.failed) == (1, 0)


def test_a_key_rests_for_a_second_after_one_that_failed(refreshing, clock):
    refreshing.begins("a", held_bytes=10)
    refreshing.ends("a", is_kept=False)

    clock.forward(s=0.999)
    rests = not refreshing.may_begin("a")
    clock.forward(s=0.001)

    assert rests
    assert refreshing.may_begin("a")
    assert (refreshing.refreshed, refreshing.failed) == (0, 1)


def test_one_that_is_cancelled_is_neither(refreshing):
    refreshing.begins("a", held_bytes=10)
    refreshing.is_cancelled("a")

    assert len(refreshing) == 0
    assert (refreshing.refreshed, refreshing.failed) == (0, 0)


def test_no_more_than_so_many_fly_at_once(refreshing):
    for number in range(MOST_AT_ONCE):
        refreshing.begins(str(number), held_bytes=1)
    is_full = not refreshing.may_begin("one more")
    refreshing.ends("0", is_kept=True)

    assert is_full
    assert refreshing.may_begin("one more")


def test_no_more_than_so_many_bytes_of_queries_are_held(refreshing):
    refreshing.begins("long", held_bytes=TOGETHER_BYTES)
    is_full = not refreshing.may_begin("one more")
    refreshing.ends("long", is_kept=True)

    assert is_full
    assert refreshing.may_begin("one more")


def test_the_keys_that_rest_are_bounded(refreshing):
    for number in range(MOST_RESTING + 10):
        refreshing.begins(str(number), held_bytes=1)
        refreshing.ends(str(number), is_kept=False)

    assert refreshing.may_begin("0")
    assert not refreshing.may_begin(str(MOST_RESTING + 9))
