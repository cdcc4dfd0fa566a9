"""Flights own their task; callers come and go (rule L1)."""

from __future__ import annotations

import asyncio

import pytest

from foretold.errors import OriginCut, OriginError, Refused
from foretold.flights.flight import SHARED_BUFFER_BYTES
from foretold.flights.table import Flights
from tests.fakes.origin import FakeIncoming
from tests.waiting import until


class World:
    """Flights, and what was landed."""

    def __init__(self, *, patience_s: float = 600.0) -> None:
        self.flights = Flights(patience_s=patience_s)
        self.landed: list[bytes] = []
        self.why: str | None = None
        self.is_shut = False
        self.is_superseded = False

    def start(self, incoming, *, key="key", landing=None, finishes_alone=False, tells_usage=True):
        async def take_off():
            if isinstance(incoming, BaseException):
                raise incoming
            return incoming

        return self.flights.start(
            key, take_off, landing or self, finishes_alone=finishes_alone, tells_usage=tells_usage
        )

    def admits(self, incoming):
        return True

    def is_open(self):
        return not self.is_shut

    def shut(self):
        self.is_shut = True

    def supersede(self):
        self.is_shut = self.is_superseded = True

    async def land(self, incoming, body):
        if self.is_shut:
            return "purged"
        self.landed.append(body)
        return self.why

    def join(self, key="key", *, usage=True):
        return self.flights.join(key, usage=usage)


@pytest.fixture
async def world():
    made = World()
    yield made
    await made.flights.close()


async def test_all_riders_get_the_same_bytes_and_the_answer_lands_once(world):
    gate = asyncio.Event()
    leader = world.start(FakeIncoming([b"a", gate, b"b"]))
    await until(lambda: leader.flight.chunk(0) is not None)
    late = world.join()
    gate.set()

    assert await asyncio.gather(leader.whole(), late.whole()) == [b"ab", b"ab"]
    assert world.landed == [b"ab"]


async def test_the_answer_has_landed_when_its_riders_see_the_end(world):
    ride = world.start(FakeIncoming([b"a"]))

    async for _ in ride.chunks():
        pass

    assert world.landed == [b"a"]


async def test_followers_finish_when_the_leader_leaves(world):
    gate = asyncio.Event()
    leader = world.start(FakeIncoming([b"a", gate, b"b"]))
    follower = world.join()

    await leader.leave()
    gate.set()

    assert await follower.whole() == b"ab"


async def test_when_nobody_waits_the_origin_is_stopped_and_nothing_lands(world):
    incoming = FakeIncoming([b"a", asyncio.Event()])
    ride = world.start(incoming)
    await ride.head()

    await ride.leave()
    await until(lambda: len(world.flights) == 0)

    assert incoming.closed == 1
    assert world.landed == []


async def test_a_flight_that_is_being_given_up_takes_nobody_aboard(world):
    ride = world.start(FakeIncoming([asyncio.Event()]))
    await ride.head()

    await ride.leave()

    assert world.join() is None


async def test_a_flight_that_finishes_alone_lands_without_riders(world):
    gate = asyncio.Event()
    ride = world.start(FakeIncoming([b"a", gate, b"b"]), finishes_alone=True)
    await ride.head()

    await ride.leave()
    gate.set()
    await until(lambda: world.landed == [b"ab"])


@pytest.mark.parametrize("error", [OriginError("x"), OriginCut("x"), Refused("x")])
async def test_what_kept_the_answer_from_coming_is_raised_for_all(world, error):
    leader = world.start(error)
    follower = world.join()

    for ride in (leader, follower):
        with pytest.raises(type(error)):
            await ride.head()
    assert world.landed == []


async def test_an_answer_that_breaks_off_raises_after_what_came_and_does_not_land(world):
    ride = world.start(FakeIncoming([b"a", OriginCut("x")]))

    got = []
    with pytest.raises(OriginCut):
        async for chunk in ride.chunks():
            got.append(chunk)

    assert got == [b"a"]
    assert world.landed == []


async def test_a_fault_of_ours_leaves_no_rider_waiting(world, caplog):
    ride = world.start(RuntimeError("a bug"))

    with pytest.raises(OriginError):
        await ride.head()
    assert "a flight failed" in caplog.text


async def test_a_fault_of_ours_in_keeping_takes_the_answer_from_nobody(world, caplog):
    async def fail(incoming, body):
        raise RuntimeError("a bug")

    world.land = fail
    ride = world.start(FakeIncoming([b"a"]))

    assert await ride.whole() == b"a"
    assert ride.flight.why_not_kept == "fault"
    assert "an answer could not be kept" in caplog.text


async def test_whoever_needs_usage_does_not_join_a_flight_that_tells_none(world):
    world.start(FakeIncoming([asyncio.Event()]), tells_usage=False)

    assert world.join(usage=True) is None
    assert world.join(usage=False) is not None


async def test_what_is_forgotten_in_mid_air_goes_to_its_riders_and_does_not_land(world):
    gate = asyncio.Event()
    ride = world.start(FakeIncoming([b"a", gate, b"b"]))
    await ride.head()

    world.flights.forget("key")
    joined = world.join()
    gate.set()

    assert joined is None
    assert await ride.whole() == b"ab"
    assert world.landed == []
    assert ride.flight.why_not_kept == "purged"


async def test_an_overlong_answer_goes_on_for_the_others_when_the_slowest_leaves(world):
    chunk = b"x" * (SHARED_BUFFER_BYTES // 4)
    gate = asyncio.Event()
    slow, quick = world.start(FakeIncoming([gate, *[chunk] * 12])), world.join()
    gate.set()
    reading = asyncio.create_task(quick.whole())
    await until(lambda: quick.place == 5)

    await slow.leave()

    assert await asyncio.wait_for(reading, 10) == chunk * 12


async def test_an_overlong_answer_is_not_joined_and_holds_its_origin_back(world):
    piece = b"x" * 2**20
    pieces = 40
    ride = world.start(FakeIncoming([piece] * pieces))
    await until(lambda: not ride.flight.is_whole)

    held = ride.flight.held_bytes
    got = sum([len(chunk) async for chunk in ride.chunks()])

    assert world.join() is None
    assert held <= SHARED_BUFFER_BYTES + 2 * len(piece)
    assert got == pieces * len(piece)
    assert world.landed == []
    assert ride.flight.why_not_kept == "too-long"


OVERLONG = [b"x" * 2**20] * 40


async def read_all(ride) -> int:
    return sum([len(chunk) async for chunk in ride.chunks()])


async def test_an_overlong_answer_goes_on_when_a_rider_leaves_who_was_behind(world):
    ride = world.start(FakeIncoming(OVERLONG))
    idle = world.join()
    reading = asyncio.create_task(read_all(ride))
    await until(lambda: not ride.flight.is_whole and ride.place > 8)

    await idle.leave()

    assert await reading == 40 * 2**20


async def test_a_rider_who_reads_nothing_of_an_overlong_answer_is_put_off_and_the_others_get_all_of_it():
    world = World(patience_s=0.05)
    ride = world.start(FakeIncoming(OVERLONG))
    idle = [world.join(), world.join()]
    got_first = await anext(idle[1].chunks())

    got = await read_all(ride)

    assert got == 40 * 2**20
    assert got_first == OVERLONG[0]
    for late in idle:
        with pytest.raises(OriginCut, match="nothing of the answer was read for"):
            await late.whole()


async def test_an_overlong_answer_that_nobody_reads_stops_its_origin():
    world = World(patience_s=0.05)
    incoming = FakeIncoming(OVERLONG)
    ride = world.start(incoming)

    await until(lambda: len(world.flights) == 0)

    assert incoming.closed == 1
    assert ride.flight.given_up


async def test_an_overlong_answer_of_many_chunks_is_forgotten_as_it_is_read(world):
    ride = world.start(FakeIncoming([b"x" * 64] * 200_000))
    await until(lambda: not ride.flight.is_whole)

    assert await read_all(ride) == 64 * 200_000
    assert ride.flight.held_bytes == 0


async def test_a_flight_from_before_a_purge_takes_nobody_aboard(world):
    ride = world.start(FakeIncoming([asyncio.Event()]))
    await ride.head()

    world.is_shut = True

    assert world.join() is None


async def test_every_flight_of_a_purged_key_lands_unkept(world):
    gate = asyncio.Event()
    older = world.start(FakeIncoming([b"old", gate]))
    newer = world.start(FakeIncoming([b"new", gate]))

    world.flights.forget("key")
    gate.set()

    assert [await older.whole(), await newer.whole()] == [b"old", b"new"]
    assert world.landed == []


async def test_a_flight_that_began_before_one_whose_answer_was_kept_no_longer_lands(world):
    gates = [asyncio.Event(), asyncio.Event()]
    older = world.start(FakeIncoming([b"old", gates[0]]), landing=(first := World()))
    newer = world.start(FakeIncoming([b"new", gates[1]]), landing=(second := World()))

    gates[1].set()
    told = [await newer.whole()]
    gates[0].set()
    told.append(await older.whole())

    assert told == [b"new", b"old"]
    assert (first.landed, first.is_superseded) == ([], True)
    assert (second.landed, second.is_superseded) == ([b"new"], False)


async def test_a_flight_lands_if_the_one_that_began_later_was_not_kept(world):
    gates = [asyncio.Event(), asyncio.Event()]
    older = world.start(FakeIncoming([b"old", gates[0]]), landing=(first := World()))
    newer = world.start(FakeIncoming([b"new", gates[1]]), landing=(second := World()))
    second.why = "status"

    gates[1].set()
    await newer.whole()
    gates[0].set()
    await older.whole()

    assert first.landed == [b"old"]


async def test_a_flight_lands_before_one_that_began_later_and_both_are_kept(world):
    gates = [asyncio.Event(), asyncio.Event()]
    older = world.start(FakeIncoming([b"old", gates[0]]))
    newer = world.start(FakeIncoming([b"new", gates[1]]))

    gates[0].set()
    await older.whole()
    gates[1].set()
    await newer.whole()

    assert world.landed == [b"old", b"new"]


async def test_a_flight_of_another_key_lands_whatever_landed_before(world):
    gate = asyncio.Event()
    older = world.start(FakeIncoming([b"old", gate]), key="one")
    newer = world.start(FakeIncoming([b"new"]), key="other")

    await newer.whole()
    gate.set()
    await older.whole()

    assert world.landed == [b"new", b"old"]


@pytest.mark.parametrize("length", [2**10, SHARED_BUFFER_BYTES + 2**20], ids=["short", "overlong"])
async def test_all_who_want_an_answer_whole_get_the_same_bytes_object(world, length):
    gate = asyncio.Event()
    body = bytes(2**10) * (length // 2**10)
    leader = world.start(FakeIncoming([gate, *(body[n : n + 2**16] for n in range(0, length, 2**16)), b"end"]))
    riders = [leader, *(world.join() for _ in range(5))]
    leaving = world.join()
    reading = [asyncio.create_task(ride.whole()) for ride in (leaving, *riders)]
    gate.set()
    await until(lambda: leaving.place > 0)
    reading[0].cancel()
    await leaving.leave()

    wholes = await asyncio.gather(*reading[1:])

    assert wholes[0] == body + b"end"
    assert all(whole is wholes[0] for whole in wholes)


async def test_a_new_flight_takes_the_place_of_an_older_one(world):
    older = world.start(FakeIncoming([b"old", asyncio.Event()]))
    newer = world.start(FakeIncoming([b"new", asyncio.Event()]))

    joined = world.join()

    assert joined.flight is newer.flight is not older.flight


async def test_closing_ends_all_flights_and_tells_their_riders(world):
    ride = world.start(FakeIncoming([asyncio.Event()]))
    await ride.head()

    await world.flights.close()

    with pytest.raises(OriginCut):
        await ride.whole()
    assert len(world.flights) == 0
