"""The process that runs a model: started once, watched, restarted, and never left behind."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from foretold.errors import ModelError
from foretold.models.host import LONGEST_SOCKET_PATH, Host
from foretold.models.manifest import SMOLLM2, File
from foretold.models.restarts import MOST_FAILURES, REST_S
from tests.fakes import engine_program_path
from tests.waiting import until

WEIGHTS = b"weights"


class Clock:
    """Time that passes only when somebody pauses."""

    def __init__(self):
        self.now_s = 1000.0
        self.pauses = []

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds


class House:
    """A host of a stand-in engine, and what that engine wrote down."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.blob = folder / "blob"
        self.blob.write_bytes(WEIGHTS)
        self.run = folder / "run"
        self.clock = Clock()
        self.hosts: list[Host] = []

    def host(self, mood: str = "serves", **settings) -> Host:
        file = File("tiny.gguf", hashlib.sha256(WEIGHTS).hexdigest(), len(WEIGHTS))
        manifest = replace(SMOLLM2, name=mood, files=(file,))
        settings = {
            "program": (engine_program_path(),),
            "grace_s": 5,
            "now_s": self.clock,
            "pause": self.clock.pause,
        } | settings
        made = Host(manifest, self.blob, self.run, chance=lambda: 1.0, **settings)
        self.hosts.append(made)
        return made

    def mood(self, mood: str) -> None:
        """What later starts do, whatever the alias."""
        (self.folder / "mood").write_text(mood)

    @property
    def pids(self) -> list[int]:
        log = self.folder / "starts"
        return [int(pid) for pid in log.read_text().split()] if log.exists() else []

    def wrote(self, name: str):
        return json.loads((self.folder / name).read_text())


@pytest.fixture
async def house(tmp_path):
    house = House(tmp_path)
    yield house
    for host in house.hosts:
        await host.stop()
    assert not any(is_alive(pid) for pid in house.pids), "an engine was left behind"
    assert not house.run.exists() or list(house.run.iterdir()) == [], "a socket was left behind"


def is_alive(pid: int) -> bool:
    """Whether a process runs, or waits to be reaped by us."""
    return Path(f"/proc/{pid}").exists()


async def test_many_who_start_at_once_share_one_engine(house):
    host = house.host()

    doors = await asyncio.gather(*(host.start() for _ in range(20)))

    assert len(set(map(id, doors))) == 1
    assert house.pids == [doors[0].pid]


async def test_a_running_engine_is_not_started_again(house):
    host = house.host()

    assert await host.start() is await host.start()


async def test_one_who_gives_up_does_not_end_the_start_for_others(house):
    host = house.host()
    impatient, patient = asyncio.create_task(host.start()), asyncio.create_task(host.start())
    await asyncio.sleep(0)

    impatient.cancel()

    assert (await patient).pid == house.pids[0]


async def test_the_engine_gets_its_secret_on_stdin_and_nothing_of_our_environment(house, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONSTARTUP", "/tmp/evil.py")

    door = await house.host().start()

    given = house.wrote("given.json")
    assert house.wrote("launch.json")["api_key"] == door.api_key
    assert given["env"].keys() <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH"}
    assert door.api_key not in json.dumps(given)
    assert door.api_key not in repr(door)
    assert given["cwd"] == "/"


async def test_the_engine_is_told_what_the_manifest_says(house):
    host = house.host(threads=3)

    await host.start()

    launch, manifest = house.wrote("launch.json"), host.manifest
    told = {name: launch[name] for name in ("context", "parallel", "memory_bytes", "threads", "parent_pid")}
    assert told == {
        "context": manifest.context,
        "parallel": manifest.parallel,
        "memory_bytes": manifest.memory_bytes,
        "threads": 3,
        "parent_pid": os.getpid(),
    }


async def test_each_start_has_another_key(house):
    host = house.host()
    first = await host.start()
    await host.stop()

    assert (await host.start()).api_key != first.api_key


async def test_the_folder_of_the_socket_is_ours_alone(house):
    await house.host().start()

    assert stat.S_IMODE(house.run.stat().st_mode) == 0o700


async def test_a_folder_that_others_can_enter_is_refused(house):
    house.run.mkdir(mode=0o755)

    with pytest.raises(ModelError, match="yours alone"):
        await house.host().start()


async def test_a_link_in_place_of_the_folder_is_followed_only_to_a_private_one(house, tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    house.run.symlink_to(tmp_path / "open")

    with pytest.raises(ModelError, match="yours alone"):
        await house.host().start()


async def test_where_the_folders_path_is_too_long_for_a_socket_a_short_one_is_used(house):
    house.run = house.folder / ("x" * 100)

    door = await house.host().start()

    assert len(os.fsencode(door.socket)) <= LONGEST_SOCKET_PATH
    assert stat.S_IMODE(door.socket.parent.stat().st_mode) == 0o700
    await house.hosts[0].stop()
    assert not door.socket.parent.exists()


@pytest.mark.parametrize("damage", [b"weightz", b"weight", b"", None], ids=["changed", "cut", "empty", "missing"])
async def test_weights_that_are_not_the_named_ones_are_never_loaded(house, damage):
    house.blob.unlink()
    if damage is not None:
        house.blob.write_bytes(damage)

    with pytest.raises(ModelError, match="not what its manifest names"):
        await house.host().start()

    assert house.pids == []


@pytest.mark.parametrize(
    ("mood", "says"),
    [("refuses", "gguf: invalid magic"), ("dies", "out of memory"), ("hangs", "did not load within 0.5 s")],
)
async def test_a_failed_load_says_why_and_leaves_no_process(house, mood, says):
    with pytest.raises(ModelError, match=says):
        await house.host(mood, load_s=0.5 if mood == "hangs" else 30).start()

    assert not any(is_alive(pid) for pid in house.pids)


async def test_words_that_are_no_handshake_are_a_failed_load(house):
    with pytest.raises(ModelError, match="handshake"):
        await house.host("garbled").start()


async def test_an_engine_that_talks_much_neither_blocks_nor_fills_memory(house):
    host = house.host("talks")

    await host.start()

    process, _ = host._running
    await until(lambda: process._said and process._said[-1] == "line 4999")
    assert len(process._said) == 200


async def test_an_engine_that_was_killed_is_started_again_at_the_next_use(house):
    host = house.host()
    first = await host.start()

    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: not host.is_running)

    second = await host.start()
    assert second.pid != first.pid
    assert not is_alive(first.pid)
    assert not first.socket.exists()


async def test_restarts_wait_longer_each_time(house):
    host = house.host("dies")

    for _ in range(4):
        with pytest.raises(ModelError):
            await host.start()

    assert house.clock.pauses == [0, 0.25, 0.5, 1.0]


async def test_after_five_failures_it_is_left_alone_for_a_while_and_says_why(house):
    host = house.host("dies")
    for _ in range(MOST_FAILURES):
        with pytest.raises(ModelError):
            await host.start()

    with pytest.raises(ModelError, match=r"failed 5 times .* out of memory"):
        await host.start()

    assert len(house.pids) == MOST_FAILURES


async def test_after_its_rest_it_is_tried_again(house):
    host = house.host("dies")
    for _ in range(MOST_FAILURES):
        with pytest.raises(ModelError):
            await host.start()
    house.clock.now_s += REST_S
    house.mood("serves")

    assert (await host.start()).pid == house.pids[-1]


async def test_a_condemned_engine_is_killed_though_it_is_stopped(house):
    host = house.host()
    door = await host.start()
    os.kill(door.pid, signal.SIGSTOP)

    await host.condemn(door, "it hangs")

    assert not is_alive(door.pid)
    assert (await host.start()).pid != door.pid


async def test_condemning_an_earlier_engine_does_not_touch_the_present_one(house):
    host = house.host()
    first = await host.start()
    await host.stop()
    second = await host.start()

    await host.condemn(first, "late")

    assert await host.start() is second


async def test_stopping_closes_stdin_first_and_the_engine_ends_by_itself(house):
    host = house.host()
    door = await host.start()

    began_s = time.monotonic()
    await host.stop()

    assert not is_alive(door.pid)
    assert time.monotonic() - began_s < 4


async def test_an_engine_deaf_to_its_end_is_killed(house):
    host = house.host("deaf", grace_s=0.1)
    door = await host.start()

    await host.stop()

    assert not is_alive(door.pid)


async def test_a_stop_that_is_cancelled_still_ends_the_engine(house):
    host = house.host("deaf", grace_s=60)
    door = await host.start()
    stopping = asyncio.create_task(host.stop())
    await asyncio.sleep(0)

    stopping.cancel()

    with pytest.raises(asyncio.CancelledError):
        await stopping
    await until(lambda: not is_alive(door.pid))


async def test_stopping_while_it_loads_ends_the_process_and_tells_who_waits(house):
    host = house.host("hangs")
    waiting = asyncio.create_task(host.start())
    await until(lambda: house.pids != [])

    await host.stop()

    with pytest.raises(ModelError, match="stopped while it started"):
        await waiting
    assert not is_alive(house.pids[0])


async def test_stopping_twice_or_before_any_start_is_harmless(house):
    host = house.host()
    await host.stop()
    await host.start()
    await host.stop()
    await host.stop()
