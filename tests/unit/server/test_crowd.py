"""Who goes when a house is full."""

from __future__ import annotations

import asyncio

from foretold.server.crowd import Crowd, door_of


class Somebody:
    """A connection that has waited so long, or is busy."""

    transport: asyncio.Transport

    def __init__(self, waited_s: float | None):
        self.waited_s = waited_s
        self.gave_way = False

    def waiting_since_s(self) -> float | None:
        return None if self.waited_s is None else asyncio.get_running_loop().time() - self.waited_s

    def give_way(self) -> None:
        self.gave_way = True


def house(*here: Somebody, most: int) -> Crowd:
    crowd = Crowd(most, write_timeout_s=3600)
    for somebody in here:
        crowd.enter(somebody)
    return crowd


async def test_whoever_waited_longest_goes_and_no_more_than_needed():
    long, longest, busy = Somebody(20), Somebody(30), Somebody(None)
    crowd = house(long, longest, busy, most=3)
    assert not longest.gave_way

    crowd.enter(Somebody(0))

    assert [s.gave_way for s in (long, longest, busy)] == [False, True, False]
    assert not crowd.is_over


async def test_nobody_goes_within_a_second_of_coming_or_while_an_answer_is_made():
    here = [Somebody(0.5), Somebody(None)]
    crowd = house(*here, most=2)

    crowd.enter(Somebody(0))

    assert not any(somebody.gave_way for somebody in here)
    assert crowd.is_over


async def test_no_more_stand_at_the_door_than_fit_there():
    busy = [Somebody(None) for _ in range(20)]
    door = [Somebody(0) for _ in range(door_of(20))]
    crowd = house(*busy, *door, most=20)
    assert not any(somebody.gave_way for somebody in door)

    one_more = Somebody(0)
    crowd.enter(one_more)

    assert one_more.gave_way


async def test_who_leaves_makes_room():
    here = [Somebody(None), Somebody(None)]
    crowd = house(*here, most=2)

    crowd.leave(here[0])
    crowd.enter(Somebody(None))

    assert not crowd.is_over
