"""Which keys were met before, in fixed memory."""

from __future__ import annotations

from foretold.tiers import doorkeeper
from foretold.tiers.doorkeeper import KEYS, TURN_MS, Doorkeeper
from tests.clock import Clock


def keys(count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_a_key_is_met_the_second_time_and_ever_after():
    keeper = Doorkeeper(now_ms=Clock())

    assert [keeper.met("a") for _ in range(4)] == [False, True, True, True]


def test_none_of_the_last_keys_is_forgotten():
    keeper = Doorkeeper(now_ms=Clock())
    for key in keys(KEYS // 2):
        keeper.met(key)
    for key in keys(KEYS // 2, "others"):
        keeper.met(key)

    assert all(keeper.met(key) for key in keys(KEYS // 2))


def test_few_are_taken_for_met_that_were_not():
    keeper = Doorkeeper(now_ms=Clock())
    for key in keys(KEYS):
        keeper.met(key)

    wrong = sum(keeper.met(key) for key in keys(5000, "new"))

    assert wrong < 5000 / 100


def test_a_key_is_forgotten_after_many_others():
    keeper = Doorkeeper(now_ms=Clock())
    keeper.met("a")
    for key in keys(2 * KEYS + 1000):
        keeper.met(key)

    assert not keeper.met("a")


def test_a_key_is_known_for_an_hour_and_forgotten_within_two():
    clock = Clock()
    keeper = Doorkeeper(now_ms=clock)
    for key in "abc":
        keeper.met(key)

    clock.now_ms += TURN_MS - 1
    within = keeper.met("a")
    clock.now_ms += 1
    after_one = keeper.met("b")
    clock.now_ms += TURN_MS
    after_two = keeper.met("c")

    assert (within, after_one, after_two) == (True, True, False)


def test_a_key_that_is_asked_for_now_and_then_is_never_forgotten():
    clock = Clock()
    keeper = Doorkeeper(now_ms=clock)
    keeper.met("a")

    for _ in range(20):
        clock.now_ms += TURN_MS // 2
        assert keeper.met("a")


def test_a_long_silence_forgets_all():
    clock = Clock()
    keeper = Doorkeeper(now_ms=clock)
    keeper.met("a")

    clock.now_ms += 5 * TURN_MS

    assert not keeper.met("a")


def test_its_memory_stays_the_same():
    keeper = Doorkeeper(now_ms=Clock())
    for key in keys(3 * KEYS):
        keeper.met(key)

    assert len(keeper._young) + len(keeper._old) == 2 * doorkeeper._BITS // 8 == 2**18


def test_two_nodes_lay_the_same_key_in_different_places():
    one, other = (Doorkeeper(now_ms=Clock()) for _ in range(2))
    one.met("a")
    other.met("a")

    assert one._young != other._young
