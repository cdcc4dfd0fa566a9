from __future__ import annotations

from foretold.models.restarts import MOST_FAILURES, REST_S, WINDOW_S, Restarts


def failing(times: int, *, at_s: float = 0.0, chance: float = 0.0) -> Restarts:
    restarts = Restarts()
    for _ in range(times):
        restarts.failed("it broke", now_s=at_s, chance=chance)
    return restarts


def test_the_first_start_waits_for_nothing():
    assert Restarts().pause_s(now_s=0) == 0
    assert Restarts().refusal(now_s=0) is None


def test_each_failure_doubles_the_pause():
    pauses = [failing(times, chance=1.0).pause_s(now_s=0) for times in (1, 2, 3, 4)]

    assert pauses == [0.25, 0.5, 1.0, 2.0]


def test_chance_shortens_a_pause_by_up_to_half():
    assert failing(1, chance=0.0).pause_s(now_s=0) == 0.125


def test_time_that_passed_since_the_failure_counts_as_pause():
    assert failing(2, chance=1.0).pause_s(now_s=0.4) == 0.5 - 0.4
    assert failing(2, chance=1.0).pause_s(now_s=9) == 0


def test_four_failures_are_tried_again():
    assert failing(MOST_FAILURES - 1).refusal(now_s=0) is None


def test_the_fifth_failure_refuses_for_a_minute_and_says_why():
    restarts = failing(MOST_FAILURES)

    assert "it broke" in restarts.refusal(now_s=REST_S - 1)
    assert restarts.refusal(now_s=REST_S) is None


def test_a_failure_after_the_rest_refuses_again_at_once():
    restarts = failing(MOST_FAILURES)

    restarts.failed("still broken", now_s=REST_S + 1, chance=0)

    assert "still broken" in restarts.refusal(now_s=REST_S + 2)


def test_failures_older_than_ten_minutes_are_forgotten():
    restarts = failing(MOST_FAILURES)

    restarts.failed("once more", now_s=WINDOW_S + 1, chance=1.0)

    assert restarts.refusal(now_s=WINDOW_S + 1) is None
    assert restarts.pause_s(now_s=WINDOW_S + 1) == 0.25
