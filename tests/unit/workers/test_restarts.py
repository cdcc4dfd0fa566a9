from __future__ import annotations

import signal

import pytest

from foretold.workers.restarts import LONGEST_PAUSE_S, Deaths


def test_the_first_death_costs_no_time_and_each_further_within_a_minute_twice_the_pause():
    deaths = Deaths()

    assert [deaths.died(-signal.SIGKILL, now_s=at_s) for at_s in (0, 1, 2, 3)] == [0.0, 0.5, 1.0, 2.0]


def test_no_pause_is_longer_than_the_longest():
    deaths = Deaths()

    assert max(deaths.died(1, now_s=0) for _ in range(100)) == LONGEST_PAUSE_S


def test_deaths_of_more_than_a_minute_ago_are_forgotten():
    deaths = Deaths()
    deaths.died(1, now_s=0)

    assert deaths.died(1, now_s=61) == 0.0


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_who_dies_of_its_memory_twice_within_a_minute_goes_without_the_disk_for_a_while(number):
    deaths = Deaths()
    deaths.died(-number, now_s=0)
    after_one = deaths.is_without_disk(now_s=1)
    deaths.died(-number, now_s=30)

    assert not after_one
    assert deaths.is_without_disk(now_s=31)
    assert not deaths.is_without_disk(now_s=31 + 600)


def test_other_deaths_are_not_the_disks():
    deaths = Deaths()
    for code in (-signal.SIGKILL, 1, -signal.SIGKILL):
        deaths.died(code, now_s=0)

    assert not deaths.is_without_disk(now_s=1)
