"""Who gets a slot, what is loaded for it and what must go, with processes that only say so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from foretold.errors import ModelError, OriginBusy, OriginReplaced, OriginUnready
from foretold.models.host import Door
from foretold.models.manifest import SMOLLM2, File
from foretold.models.pool import Member, Pool
from tests.waiting import until


class FakeRuns:
    """A process that is there at once, unless it is told to fail or to take until `may_stop`."""

    def __init__(self, world: World):
        self._world = world
        self.is_running = False
        self.is_starting = False
        self.starts = 0
        self.fails = False
        self.may_stop = asyncio.Event()
        self.may_stop.set()

    async def start(self) -> Door:
        if self.fails:
            raise ModelError("it is broken")
        if not self.is_running:
            self.starts += 1
        self.is_running = True
        self._world.most_running = max(
            self._world.most_running, sum(run.is_running for run in self._world.runs.values())
        )
        return Door(Path("x"), "key", 1)

    async def stop(self) -> None:
        await self.may_stop.wait()
        self.is_running = False


class World:
    """Models that take 100 bytes each, and a clock that the test sets."""

    def __init__(
        self,
        *names: str,
        room_for: int,
        parallel: int = 1,
        queue: int = 9,
        keep_alive_s: float = -1,
        pins=(),
        sleep_s=0,
    ):
        self.now_s = 0.0
        self.most_running = 0
        self.runs = {name: FakeRuns(self) for name in names}
        members = [
            Member(
                manifest(name, parallel=parallel),
                self.runs[name],
                queue=queue,
                keep_alive_s=keep_alive_s,
                is_pinned=name in pins,
                sleep_s=sleep_s,
            )
            for name in names
        ]
        self.pool = Pool(members, budget_bytes=100 * room_for, now_s=lambda: self.now_s)

    @property
    def running(self) -> set[str]:
        return {name for name, run in self.runs.items() if run.is_running}

    async def taken(self, name: str) -> None:
        """A slot of a model, whose process runs."""
        await self.pool.acquire(name)
        await self.runs[name].start()

    async def wanting(self, name: str) -> asyncio.Task[None]:
        """Somebody who has asked, and may have to wait."""
        task = asyncio.create_task(self.taken(name))
        await asyncio.sleep(0)
        return task

    async def forward(self, seconds: float) -> None:
        self.now_s += seconds
        self.pool.look()
        for _ in range(5):
            await asyncio.sleep(0)


def manifest(name: str, *, parallel: int = 1):
    return replace(
        SMOLLM2,
        name=name,
        files=(File(f"{name}.gguf", name * 64, 90),),
        fixed_bytes=10,
        token_bytes=0,
        parallel=parallel,
    )


async def test_a_model_is_loaded_when_it_is_first_wanted_and_stays():
    world = World("a", "b", room_for=2)
    await world.taken("a")
    world.pool.release("a")
    await world.taken("a")

    assert world.running == {"a"}
    assert world.runs["a"].starts == 1
    assert world.pool.taken_bytes == 100


async def test_what_was_used_longest_ago_goes_when_room_is_needed():
    world = World("a", "b", "c", room_for=2)
    for name in ("a", "b", "a"):
        world.now_s += 1
        await world.taken(name)
        world.pool.release(name)

    await world.taken("c")

    assert world.running == {"a", "c"}
    assert world.most_running == 2


async def test_a_busy_model_stays_until_its_answer_has_ended():
    world = World("a", "b", room_for=1)
    await world.taken("a")
    waiting = await world.wanting("b")
    assert not waiting.done()
    assert world.running == {"a"}

    world.pool.release("a")
    await waiting

    assert world.running == {"b"}
    assert world.most_running == 1


async def test_a_new_process_waits_until_the_old_one_is_gone():
    world = World("a", "b", room_for=1)
    world.runs["a"].may_stop.clear()
    await world.taken("a")
    waiting = await world.wanting("b")
    world.pool.release("a")
    await asyncio.sleep(0)
    assert world.pool.state_of("a") == "unloading"
    assert not waiting.done()

    world.runs["a"].may_stop.set()
    await waiting

    assert world.most_running == 1


async def test_a_process_that_does_not_end_keeps_nobody_from_other_models():
    world = World("a", "b", "c", room_for=3)
    world.runs["a"].may_stop.clear()
    await world.taken("a")
    world.pool.release("a", 0)
    back = await world.wanting("a")

    await world.taken("b")
    await world.taken("c")
    assert not back.done()
    world.runs["a"].may_stop.set()
    await back

    assert world.running == {"a", "b", "c"}


async def test_the_room_of_a_model_that_comes_back_is_not_taken_by_who_asked_later():
    world = World("a", "b", room_for=1)
    world.runs["a"].may_stop.clear()
    await world.taken("a")
    world.pool.release("a", 0)
    back, later = await world.wanting("a"), await world.wanting("b")

    world.runs["a"].may_stop.set()
    await back
    assert not later.done()
    world.pool.release("a")
    await later

    assert world.most_running == 1


async def test_who_comes_later_for_a_busy_model_waits_behind_the_one_who_needs_its_room():
    world = World("a", "b", room_for=1, parallel=2)
    await world.taken("a")
    other = await world.wanting("b")
    later = await world.wanting("a")
    assert not later.done()  # though it has a free slot

    world.pool.release("a")
    await other
    assert not later.done()
    world.pool.release("b")
    await later

    assert world.running == {"a"}
    assert world.runs["a"].starts == 2


async def test_who_waits_for_a_slot_already_is_served_before_the_model_goes():
    world = World("a", "b", room_for=1)
    await world.taken("a")
    earlier = await world.wanting("a")
    other = await world.wanting("b")

    world.pool.release("a")
    await earlier
    assert not other.done()
    world.pool.release("a")
    await other

    assert world.runs["a"].starts == 1


async def test_whoever_gives_up_waiting_keeps_nobody_waiting():
    world = World("a", "b", room_for=1, parallel=2)
    await world.taken("a")
    other = await world.wanting("b")
    later = await world.wanting("a")

    other.cancel()
    await later

    assert world.running == {"a"}
    assert world.pool.told()[0]["answering"] == 2


async def test_a_slot_granted_to_somebody_who_left_is_given_back():
    world = World("a", room_for=1)
    await world.taken("a")
    left = await world.wanting("a")
    world.pool.release("a")  # granted, and he hasn't run yet
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)

    assert world.pool.told()[0]["answering"] == 0
    await world.taken("a")


async def test_a_pinned_model_never_goes_for_others():
    world = World("a", "b", "c", room_for=2, pins=("a",))
    await world.pool.begin()
    for name in ("b", "c", "b"):
        world.now_s += 1
        await world.taken(name)
        world.pool.release(name)

    assert world.running == {"a", "b"}
    assert world.runs["a"].starts == 1


async def test_beyond_its_queue_a_model_says_so_at_once():
    world = World("a", room_for=1, queue=2)
    await world.taken("a")
    waiting = [await world.wanting("a") for _ in range(2)]

    with pytest.raises(OriginBusy, match="2 more wait already"):
        await world.pool.acquire("a")

    assert not any(task.done() for task in waiting)
    for task in waiting:
        world.pool.release("a")
        await task


async def test_a_model_that_never_has_room_is_refused_with_both_numbers():
    with pytest.raises(ModelError, match=r"needs 0 MB.*leaves it 0 MB"):
        World("a", "b", room_for=1, pins=("a",))


async def test_an_idle_model_goes_when_it_was_kept_for_long_enough():
    world = World("a", room_for=1, keep_alive_s=60)
    await world.taken("a")
    await world.forward(100)
    assert world.running == {"a"}  # it answers

    world.pool.release("a")
    await world.forward(59)
    assert world.running == {"a"}
    await world.forward(1)

    assert world.running == set()
    assert world.pool.taken_bytes == 0


async def test_keep_alive_0_unloads_at_once_when_nobody_else_asks():
    world = World("a", room_for=1, keep_alive_s=0)
    await world.taken("a")
    next_one = await world.wanting("a")
    world.pool.release("a")
    await next_one
    assert world.runs["a"].starts == 1

    world.pool.release("a")
    await until(lambda: world.pool.state_of("a") == "unloaded")

    assert world.running == set()


async def test_a_request_says_how_long_the_model_is_kept_after_it():
    world = World("a", room_for=1, keep_alive_s=10)
    await world.taken("a")
    world.pool.release("a", -1)
    await world.forward(1000)
    assert world.running == {"a"}

    await world.taken("a")
    world.pool.release("a", 30)
    await world.forward(29)
    assert world.running == {"a"}
    await world.forward(1)

    assert world.running == set()


async def test_unloading_a_busy_model_waits_for_its_answer_and_lets_nobody_in():
    world = World("a", room_for=1, parallel=2)
    await world.taken("a")
    await world.pool.unload("a")
    later = await world.wanting("a")
    assert world.pool.state_of("a") == "unloading"
    assert world.running == {"a"}

    world.pool.release("a")
    await later

    assert world.runs["a"].starts == 2


async def test_an_operator_may_unload_a_pinned_model():
    world = World("a", room_for=1, pins=("a",))
    await world.pool.begin()

    await world.pool.unload("a")

    assert world.running == set()
    assert world.pool.state_of("a") == "unloaded"


async def test_a_model_that_fails_to_load_gives_its_room_back():
    world = World("a", "b", room_for=1)
    world.runs["a"].fails = True

    with pytest.raises(ModelError):
        await world.pool.load("a")
    await world.taken("b")

    assert world.running == {"b"}


async def test_a_model_whose_process_died_is_loaded_again():
    world = World("a", room_for=1)
    await world.taken("a")
    world.runs["a"].is_running = False
    world.pool.release("a")

    await world.taken("a")

    assert world.runs["a"].starts == 2


async def test_a_model_whose_process_died_when_it_was_idle_is_not_told_as_loaded():
    world = World("a", room_for=1)
    await world.taken("a")
    world.pool.release("a")
    world.runs["a"].is_running = False

    (told,) = world.pool.told()

    assert told["state"] == "unloading"
    await until(lambda: world.pool.state_of("a") == "unloaded")
    assert world.pool.taken_bytes == 0


async def test_stopping_ends_all_and_tells_who_waits():
    world = World("a", "b", room_for=1)
    await world.taken("a")
    waiting = await world.wanting("b")

    await world.pool.stop()

    with pytest.raises(OriginUnready, match="stopping"):
        await waiting
    with pytest.raises(OriginUnready, match="stopping"):
        await world.pool.acquire("a")
    assert world.running == set()


async def test_models_that_are_to_be_there_first_are_loaded_as_far_as_there_is_room():
    runs = World("x", room_for=1)
    members = [Member(manifest(n), FakeRuns(runs), queue=1, starts_first=True) for n in "ab"]
    pool = Pool(members, budget_bytes=100)

    await pool.begin()

    assert [one["state"] for one in pool.told()] == ["loaded", "unloaded"]


def coming(world: World, name: str) -> tuple[str, FakeRuns]:
    """Another revision of a model, that may be loaded from now on."""
    runs = FakeRuns(world)
    which = world.pool.add(Member(manifest(name), runs, queue=9, is_pinned=True))
    world.runs[which] = runs
    return which, runs


async def test_a_revision_that_is_asked_from_now_on_lets_the_other_end_its_answers_and_go():
    world = World("a", room_for=2)
    gone: list[str] = []
    world.pool.on_gone = gone.append
    await world.taken("a")
    which, _ = coming(world, "a")
    await world.taken(which)

    world.pool.ask(which)

    assert world.running == {"a", which}
    assert world.pool.asked("a") == which
    world.pool.release("a")
    await until(lambda: world.running == {which})
    await until(lambda: gone == ["a"])


async def test_who_waits_for_a_revision_that_is_replaced_is_told_and_so_is_who_comes_later():
    world = World("a", room_for=2)
    await world.taken("a")
    waits = await world.wanting("a")
    which, _ = coming(world, "a")
    await world.taken(which)

    world.pool.ask(which)

    with pytest.raises(OriginReplaced):
        await waits
    with pytest.raises(OriginReplaced):
        await world.pool.acquire("a")
    world.pool.release("a")
    await until(lambda: world.running == {which})
    with pytest.raises(OriginReplaced):
        await world.pool.acquire("a")


async def test_without_room_for_both_the_one_that_comes_waits_until_the_other_is_idle_pinned_or_not():
    world = World("a", room_for=1, pins=("a",))
    await world.taken("a")
    which, _ = coming(world, "a")
    comes = await world.wanting(which)
    later = await world.wanting("a")
    assert world.running == {"a"}

    world.pool.release("a")
    await comes

    assert world.running == {which}
    assert not later.done()
    world.pool.ask(which)
    with pytest.raises(OriginReplaced):
        await later
    assert world.most_running == 1


async def test_a_revision_that_fails_is_let_go_and_those_who_wait_get_the_one_that_is_asked():
    world = World("a", room_for=1)
    await world.taken("a")
    which, runs = coming(world, "a")
    runs.fails = True
    comes = await world.wanting(which)
    later = await world.wanting("a")
    world.pool.release("a")
    with pytest.raises(ModelError):
        await comes

    world.pool.let_go(which)
    world.pool.release(which)

    await later
    assert world.pool.asked("a") == "a"
    assert [one["others"] for one in world.pool.told()] == [[]]


async def test_a_replaced_revision_that_is_still_here_comes_back_without_being_loaded_again():
    world = World("a", room_for=2)
    await world.taken("a")
    which, _ = coming(world, "a")
    await world.taken(which)
    world.pool.ask(which)

    assert world.pool.bring_back("a")
    world.pool.ask("a")

    world.pool.release("a")
    world.pool.release(which)
    await until(lambda: world.running == {"a"})
    assert world.runs["a"].starts == 1
    assert not world.pool.bring_back(which)


async def test_a_slot_that_is_given_back_as_its_next_taker_leaves_goes_to_the_one_behind():
    world = World("a", room_for=1)
    await world.taken("a")
    leaves = await world.wanting("a")
    behind = await world.wanting("a")

    leaves.cancel()
    world.pool.release("a")

    await behind
    assert leaves.cancelled() or leaves.cancelling()


async def test_what_happens_to_a_model_is_counted():
    world = World("a", "b", room_for=1)
    for name in ("a", "b", "a"):
        await world.taken(name)
        world.pool.release(name)
    await world.pool.unload("a")

    counts = {one["name"]: one["counts"] for one in world.pool.told()}
    assert (counts["a"]["loads"], counts["a"]["unloads"], counts["a"]["evictions"]) == (2, 2, 1)
    assert (counts["b"]["loads"], counts["b"]["unloads"], counts["b"]["evictions"]) == (1, 1, 1)


async def test_a_model_that_is_idle_for_long_enough_sleeps_until_it_is_asked_and_keeps_its_room():
    world = World("a", room_for=1, keep_alive_s=100, sleep_s=10)
    await world.taken("a")
    await world.forward(50)
    assert world.pool.state_of("a") == "loaded"  # it answers
    world.pool.release("a")
    await world.forward(9)
    assert world.pool.state_of("a") == "loaded"
    await world.forward(2)

    assert world.pool.state_of("a") == "asleep"
    assert world.pool.told()[0]["asleep_bytes"] == 10
    assert world.pool.taken_bytes == 100
    await world.taken("a")
    assert world.pool.state_of("a") == "loaded"
    world.pool.release("a")
    await world.forward(100)
    assert world.running == set()
