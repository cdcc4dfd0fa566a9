"""A purge on either side of KV reaches the other, and while KV can't be read nothing old is given (rule G1)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from foretold.contract.generations import EVERYTHING, generation_name, is_alive
from foretold.errors import StoreError
from foretold.generations import FileGenerations
from foretold.stores.cloudflare.purges import SharedGenerations
from tests.clock import Clock
from tests.kv import an_account_with_kv, api_to

SECRET = bytes(32)


class World:
    def __init__(self, account, folder):
        self.account = account
        self.clock = Clock()
        self.folder = folder
        account.things.now_s = self.wall_s

    def wall_s(self) -> float:
        return self.clock.now_ms / 1000

    @property
    def kv(self):
        return self.account.things.namespace("PredictionCache")

    async def pause(self, seconds: float) -> None:
        self.clock.forward(s=seconds)
        await asyncio.sleep(0)

    def machine(self, name: str = "here", **more) -> SharedGenerations:
        """One of a data folder of this name; a second of the same is another process."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        file = FileGenerations(folder / "generations.json", SECRET, now_s=self.wall_s)
        api = api_to(self.account, now_s=self.wall_s, wall_s=self.wall_s, call_s=2)
        return SharedGenerations(file, api, folder / "read", wall_s=self.wall_s, pause=self.pause, **more)

    def purge_at_an_edge(self, tag: str, value: str) -> None:
        assert self.kv.put(generation_name(tag), value.encode(), {}, ttl_s=None, now_s=self.wall_s())

    def at_the_edge(self, tag: str) -> str | None:
        found = self.kv.get(generation_name(tag), now_s=self.wall_s())
        return None if found is None else found.decode()


@pytest.fixture
async def world(tmp_path):
    async with an_account_with_kv() as (account, api):
        yield World(account, tmp_path)


@asynccontextmanager
async def closing(*machines):
    try:
        yield machines[0] if len(machines) == 1 else machines
    finally:
        for machine in machines:
            await machine.close()


async def test_before_kv_was_read_nothing_counts(world):
    async with closing(world.machine()) as here:
        assert here.now() == {}
        await here.read()
        assert EVERYTHING in here.now()


async def test_the_machine_tells_kv_its_generation_of_everything_if_there_is_none(world):
    async with closing(world.machine()) as here:
        await here.read()

        assert world.at_the_edge(EVERYTHING) == here.now()[EVERYTHING]


async def test_two_machines_and_the_edge_have_one_table(world):
    async with closing(world.machine("here"), world.machine("there")) as (here, there):
        await here.read()
        world.clock.forward(s=2)
        await there.read()
        await there.renew(["model:m"])
        world.clock.forward(s=2)
        await here.read()

        assert here.now().get("model:m") == there.now().get("model:m") == world.at_the_edge("model:m")
        assert here.now()[EVERYTHING] == there.now()[EVERYTHING]


async def test_a_purge_at_an_edge_kills_here_what_was_made_before(world):
    async with closing(world.machine()) as here:
        await here.read()
        record = {EVERYTHING: here.now()[EVERYTHING], "tag:a:b": ""}
        assert is_alive(record, here.now())

        world.purge_at_an_edge("tag:a:b", "0" * 16)
        await here.read()

        assert not is_alive(record, here.now())


async def test_a_purge_here_is_in_kv_when_it_is_told(world):
    async with closing(world.machine()) as here:
        await here.read()
        await here.renew(["tag:a:b"])

        assert world.at_the_edge("tag:a:b") == here.now().get("tag:a:b") != ""


async def test_two_purges_of_a_tag_within_a_second_both_arrive(world):
    async with closing(world.machine()) as here:
        await here.read()
        await here.renew(["model:m"])
        await here.renew(["model:m"])

        assert world.at_the_edge("model:m") == here.now().get("model:m")


async def test_a_purge_that_kv_does_not_take_counts_here_and_is_told_when_it_does(world):
    async with closing(world.machine()) as here:
        await here.read()
        before = here.now().get("model:m")
        world.account.fail(1, status=500, code=10000)
        with pytest.raises(StoreError, match="the edges don't know it yet"):
            await here.renew(["model:m"])

        assert here.now().get("model:m") != before
        assert world.at_the_edge("model:m") is None

        world.clock.forward(s=2)
        await here.read()
        assert world.at_the_edge("model:m") == here.now().get("model:m")


async def test_a_purge_that_was_not_told_is_told_after_a_restart(world):
    async with closing(world.machine()) as here:
        await here.read()
        world.account.fail(1, status=500, code=10000)
        with pytest.raises(StoreError):
            await here.renew(["model:m"])
    world.clock.forward(s=2)

    async with closing(world.machine()) as again:
        await again.read()
        assert world.at_the_edge("model:m") == again.now().get("model:m")


@pytest.mark.parametrize("trouble", ["hangs", "refuses", "wrong token"])
async def test_while_kv_cannot_be_read_what_was_read_is_believed_for_90_seconds_then_nothing_counts(
    world, trouble, caplog
):
    async with closing(world.machine()) as here:
        await here.read()
        if trouble == "hangs":
            here._api._call_s = 0.01
            world.account.is_hanging = True
        elif trouble == "refuses":
            world.account.calls_left = 0
        else:
            world.account.things.tokens.clear()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert not await here.read()

        world.clock.forward(s=89)
        assert EVERYTHING in here.now()
        world.clock.forward(s=2)
        assert here.now() == {}
        assert caplog.text.count("can't be read from KV") == 1


async def test_it_counts_again_as_soon_as_kv_can_be_read(world, caplog):
    async with closing(world.machine()) as here:
        await here.read()
        world.account.calls_left = 0
        await here.read()
        world.clock.forward(s=1000)
        assert here.now() == {}

        world.account.calls_left = 100
        await here.read()
        assert EVERYTHING in here.now()


async def test_how_long_it_is_believed_can_be_set(world):
    async with closing(world.machine(believe_s=86_400)) as here:
        await here.read()
        world.clock.forward(s=80_000)

        assert EVERYTHING in here.now()


async def test_a_clock_that_was_set_back_makes_nothing_believed_for_longer(world):
    async with closing(world.machine()) as here:
        await here.read()
        world.clock.forward(s=-3600)

        assert here.now() == {}


async def test_one_process_reads_for_all_of_the_data_folder(world):
    async with closing(world.machine(), world.machine()) as (one, other):
        await one.read()
        calls = len(world.account.calls)

        assert EVERYTHING in other.now()
        assert other.now() == one.now()
        assert len(world.account.calls) == calls


async def test_it_reads_again_by_itself(world):
    async with closing(world.machine(every_s=20)) as here:
        await here.open()
        record = {EVERYTHING: here.now()[EVERYTHING], "model:m": ""}
        world.purge_at_an_edge("model:m", "0" * 16)
        began_s = world.wall_s()
        while is_alive(record, here.now()):
            await asyncio.sleep(0.001)

    assert world.wall_s() - began_s < 90


async def test_a_kv_that_hangs_holds_no_start_up(world, monkeypatch):
    monkeypatch.setattr("foretold.stores.cloudflare.purges.FIRST_READ_S", 0.05)
    world.account.is_hanging = True
    async with closing(world.machine()) as here:
        await here.open()

        assert here.now() == {}


async def test_what_is_no_generation_is_nobodys_purge(world):
    async with closing(world.machine()) as here:
        await here.read()
        before = here.now()
        world.purge_at_an_edge("model:m", "no generation " * 10)
        await here.read()

        assert here.now().get("model:m") == before.get("model:m")


async def test_an_emptied_kv_is_told_again_once_it_is_no_delay(world):
    async with closing(world.machine()) as here:
        await here.read()
        await here.renew(["model:m"])
        world.kv.values.clear()
        for _ in range(6):
            world.clock.forward(s=20)
            await here.read()

        assert world.at_the_edge(EVERYTHING) == here.now()[EVERYTHING]
        assert world.at_the_edge("model:m") == here.now().get("model:m")


async def test_a_kv_that_goes_back_to_a_value_that_was_replaced_is_settled_by_a_new_one(world):
    async with closing(world.machine()) as here:
        await here.read()
        world.purge_at_an_edge("model:m", "1" * 16)
        await here.read()
        world.clock.forward(s=2)
        world.purge_at_an_edge("model:m", "2" * 16)
        await here.read()
        world.clock.forward(s=2)
        world.purge_at_an_edge("model:m", "1" * 16)
        for _ in range(6):
            world.clock.forward(s=20)
            await here.read()

        assert world.at_the_edge("model:m") == here.now().get("model:m") not in ("1" * 16, "2" * 16)
