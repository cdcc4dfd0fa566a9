"""What a flight came to decides for moments what later callers of its key get: each row of rule L1."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from foretold.contract.endings import Ending, ending
from foretold.errors import ForetoldError, OriginCut, OriginError, OriginTimeout, OriginUnreachable, Refused
from foretold.flights.aftermath import LONGEST_TOLD_BYTES, Aftermath
from foretold.flights.table import Flights
from tests.clock import Clock
from tests.fakes.origin import FakeIncoming
from tests.waiting import until


class World:
    """Flights under a clock that a test sets; `why` is what landing says."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.flights = Flights(now_ms=self.clock)
        self.why: str | None = None
        self.is_shut = False
        self.runs = 0

    def start(self, what, *, key="key", is_shared=True, asks_others=True, tells_usage=True):
        async def take_off():
            self.runs += 1
            if isinstance(what, ForetoldError):
                raise what
            return what

        return self.flights.start(
            key,
            take_off,
            self,
            finishes_alone=False,
            tells_usage=tells_usage,
            is_shared=is_shared,
            asks_others=asks_others,
        )

    async def flown(self, what, **how):
        """A flight that has ended, and whose only rider has left."""
        ride = self.start(what, **how)
        with contextlib.suppress(ForetoldError):
            await ride.whole()
        await ride.leave()
        await asyncio.wait([ride.flight.task])

    def join(self, key="key", *, usage=True, asks_others=True):
        return self.flights.join(key, usage=usage, asks_others=asks_others)

    def admits(self, incoming):
        return True

    def is_open(self):
        return not self.is_shut

    def shut(self):
        self.is_shut = True

    def supersede(self):
        self.is_shut = True

    async def land(self, incoming, body):
        return self.why


@pytest.fixture
async def world():
    made = World()
    yield made
    await made.flights.close()


def answered(status=200, body=b"a", *, is_fallback=False):
    incoming = FakeIncoming([body], status=status)
    incoming.is_fallback = is_fallback
    return incoming


async def test_after_an_answer_that_was_kept_nothing_is_left(world):
    await world.flown(answered())

    assert world.join() is None
    assert not world.flights.has_mark("key")


async def test_after_an_answer_that_cannot_be_kept_callers_fly_alone_for_five_seconds(world):
    world.why = "empty"
    await world.flown(answered())

    for seconds in (0, 4.999):
        world.clock.now_ms = Clock().now_ms + int(seconds * 1000)
        alone = world.start(FakeIncoming([asyncio.Event()]))
        assert world.join() is None
        await alone.leave()
    world.clock.now_ms = Clock().now_ms + 5000
    world.start(FakeIncoming([asyncio.Event()]))

    assert world.join() is not None


async def test_those_who_fly_alone_are_not_held_up_by_one_another(world):
    world.why = "empty"
    await world.flown(answered())

    slow, quick = world.start(FakeIncoming([asyncio.Event()])), world.start(answered(body=b"b"))

    assert await quick.whole() == b"b"
    assert slow.flight.incoming is not quick.flight.incoming


@pytest.mark.parametrize("status", [429, 500, 501, 502, 503, 504, 529, 599])
async def test_an_error_of_the_origin_is_told_again_for_one_second(world, status):
    world.why = "status"
    await world.flown(answered(status, b"no"))

    world.clock.forward(s=0.999)
    again = world.join()
    incoming, body = await again.head(), await again.whole()
    await again.leave()
    world.clock.forward(s=0.001)

    assert again.is_echo
    assert (incoming.status, body) == (status, b"no")
    assert world.join() is None
    assert world.runs == 1


@pytest.mark.parametrize("error", [OriginUnreachable("gone"), OriginTimeout("slow"), OriginError("odd")])
async def test_no_answer_at_all_is_told_again_for_one_second_as_the_same_error(world, error):
    await world.flown(error)

    with pytest.raises(type(error), match=str(error)) as raised:
        await world.join().head()
    world.clock.forward(s=1)

    assert raised.value.is_echo
    assert not error.is_echo
    assert world.join() is None


async def test_an_error_told_a_thousand_times_does_not_grow(world):
    error = OriginUnreachable("gone")
    await world.flown(error)

    depths = []
    for _ in range(1000):
        with pytest.raises(OriginUnreachable) as raised:
            await world.join().head()
        depths.append(len(raised.traceback))

    assert set(depths) == {depths[0]}


async def test_when_the_second_is_over_exactly_one_asks_and_the_others_wait_for_it(world):
    world.why = "status"
    await world.flown(answered(503))
    world.clock.forward(s=1)

    probe = world.start(FakeIncoming([asyncio.Event()]))
    others = [world.join() for _ in range(10)]

    assert [other.flight for other in others] == [probe.flight] * 10
    assert not any(other.is_echo for other in others)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 422])
async def test_after_any_other_4xx_the_next_caller_flies(world, status):
    world.why = "status"
    await world.flown(answered(status))

    assert world.join() is None
    assert not world.flights.has_mark("key")


@pytest.mark.parametrize(
    "lost",
    [OriginCut("before the first byte"), FakeIncoming([b"a", OriginCut("after bytes")])],
    ids=["before", "after"],
)
async def test_after_an_answer_that_was_lost_the_next_caller_flies(world, lost):
    await world.flown(lost)

    assert world.join() is None
    assert not world.flights.has_mark("key")


async def test_after_a_refusal_the_next_caller_flies(world):
    await world.flown(Refused("not so"))

    assert not world.flights.has_mark("key")


async def test_a_fallbacks_answer_is_told_again_for_one_second(world):
    world.why = "fallback"
    await world.flown(answered(200, b"second", is_fallback=True))

    assert await world.join().whole() == b"second"
    world.clock.forward(s=1)
    assert world.join() is None


@pytest.mark.parametrize("why", ["queue-full", "fault"])
async def test_what_was_not_kept_for_reasons_of_ours_keeps_nobody_from_sharing(world, why):
    world.why = why
    await world.flown(answered())

    assert not world.flights.has_mark("key")


async def test_a_flight_that_was_given_up_leaves_nothing(world):
    ride = world.start(FakeIncoming([asyncio.Event()]))
    await ride.leave()
    await until(lambda: len(world.flights) == 0)

    assert not world.flights.has_mark("key")


async def test_an_error_goes_to_its_end_though_nobody_waits_and_is_told_to_the_next(world):
    gate = asyncio.Event()
    world.why = "status"
    ride = world.start(FakeIncoming([b"n", gate, b"o"], status=500))
    await ride.head()

    await ride.leave()
    gate.set()
    await until(lambda: len(world.flights) == 0)

    assert await world.join().whole() == b"no"


async def test_an_error_without_an_end_is_given_up_when_nobody_waits(world):
    ride = world.start(FakeIncoming([b"x" * 2**20] * 1000, status=500))
    await ride.head()

    await ride.leave()
    await until(lambda: len(world.flights) == 0)

    assert ride.flight.given_up
    assert ride.flight.came_bytes < 2**24


@pytest.mark.parametrize("status", [200, 503])
async def test_a_purge_forgets_what_was_left(world, status):
    world.why = "status"
    await world.flown(answered(status))
    was_there = world.flights.has_mark("key")

    world.flights.forget("key")

    assert was_there
    assert not world.flights.has_mark("key")


async def test_what_a_flight_left_is_dead_once_a_tag_of_it_is_purged(world):
    world.why = "status"
    await world.flown(answered(503))

    world.is_shut = True

    assert world.join() is None


async def test_a_flight_that_was_purged_in_mid_air_leaves_nothing(world):
    gate = asyncio.Event()
    world.why = "status"
    ride = world.start(FakeIncoming([gate, b"no"], status=503))

    world.is_shut = True
    gate.set()
    await ride.whole()
    world.is_shut = False

    assert not world.flights.has_mark("key")


async def test_whoever_needs_usage_is_not_told_again_what_has_none(world):
    await world.flown(answered(200, is_fallback=True), tells_usage=False)

    assert world.join(usage=True) is None
    assert world.join(usage=False) is not None


async def test_flights_of_two_keys_leave_nothing_to_each_other(world):
    await world.flown(answered(503), key="one")

    assert world.join("other") is None


async def test_a_flight_without_fallbacks_is_not_joined_by_who_wants_them(world):
    world.start(FakeIncoming([asyncio.Event()]), asks_others=False)
    await world.flown(answered(503), key="failed", asks_others=False)

    assert world.join(asks_others=True) is None
    assert world.join("failed", asks_others=True) is None
    assert world.join("failed", asks_others=False).is_echo


async def test_a_flight_that_is_not_shared_takes_nobody_aboard_and_leaves_nothing(world):
    alone = world.start(FakeIncoming([asyncio.Event()]), is_shared=False)
    await world.flown(answered(503), key="failed", is_shared=False)

    assert world.join() is None
    assert world.join("failed") is None
    await alone.leave()


SAME = ending(status=503, clean=True, storable=False, sent_any=True, retried=True)
ALONE = ending(status=200, clean=True, storable=False, sent_any=True, retried=True)


def left(aftermath: Aftermath[str], name: str, how: Ending | None = SAME, *, came_bytes: int = 0) -> None:
    aftermath.leave((name, True), how, name, came_bytes=came_bytes, is_alive=lambda: True)


def test_what_is_left_is_bounded_in_number_and_the_oldest_goes_first():
    aftermath: Aftermath[str] = Aftermath(Clock(), most=3)

    for name in "abcde":
        left(aftermath, name)

    assert [aftermath.of((name, True)) is not None for name in "abcde"] == [False, False, True, True, True]


def test_what_is_left_is_bounded_in_bytes():
    aftermath: Aftermath[str] = Aftermath(Clock(), limit_bytes=2**20)

    for number in range(1000):
        left(aftermath, str(number), came_bytes=10_000)

    assert 1 < len(aftermath) < 40
    assert aftermath.held_bytes <= 2**20


def test_an_answer_too_long_to_be_told_again_is_not_kept_for_it():
    aftermath: Aftermath[str] = Aftermath(Clock())

    left(aftermath, "longest", came_bytes=LONGEST_TOLD_BYTES)
    left(aftermath, "longer", came_bytes=LONGEST_TOLD_BYTES + 1)

    assert aftermath.of(("longest", True)) is not None
    assert aftermath.of(("longer", True)) is None


def test_what_has_passed_takes_no_room():
    clock = Clock()
    aftermath: Aftermath[str] = Aftermath(clock)
    for number in range(100):
        left(aftermath, str(number), ALONE if number % 2 else SAME)

    clock.forward(s=5)
    left(aftermath, "new")

    assert len(aftermath) == 1


def test_a_later_flight_takes_the_place_of_what_an_earlier_one_left():
    aftermath: Aftermath[str] = Aftermath(Clock())
    left(aftermath, "a", ALONE)
    left(aftermath, "a", None)

    assert aftermath.of(("a", True)) is None
    assert aftermath.held_bytes == 0
