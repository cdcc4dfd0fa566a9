"""Several models on one node, in real processes of which only some have room at once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from foretold.config import load
from foretold.errors import ModelError
from foretold.models.configured import Weights, local_models_of
from foretold.models.manifest import SMOLLM2, File
from tests.fakes import answering_program_path
from tests.running import running
from tests.waiting import until

# What a model of this house takes, as it is predicted.
MODEL_BYTES = 50_000_000
ONE_AT_ONCE = "60 MB"
TWO_AT_ONCE = "110 MB"


def settings(*names: str, memory: str = TWO_AT_ONCE, each: str = "", more: str = "") -> str:
    """Of a library: such models are loaded when they are first wanted."""
    of = f'source = "file:///library"\nrevision = "{"0" * 64}"'
    tables = "\n".join(f"[models.{name}]\n{of}\nparallel = 2\n{each}" for name in names)
    return f'[pool]\nmemory = "{memory}"\n{tables}\n{more}'


def weights_in(folder: Path, *names: str) -> dict[str, Weights]:
    found = {}
    for name in names:
        blob = folder / f"{name}.gguf"
        blob.write_bytes(name.encode())
        file = File(blob.name, hashlib.sha256(name.encode()).hexdigest(), len(name))
        found[name] = Weights(
            replace(SMOLLM2, name=name, files=(file,), fixed_bytes=MODEL_BYTES, token_bytes=0, parallel=2), blob
        )
    return found


class House:
    """A node and its models, and what their processes wrote down."""

    def __init__(self, folder: Path, node):
        self.folder = folder
        self.node = node
        self.pool = node.assembled.models.pool

    @property
    def loads(self) -> list[tuple[str, int]]:
        log = self.folder / "loads"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(name, int(pid)) for name, pid, _ in lines]

    def let_go(self) -> None:
        (self.folder / "go").touch()

    async def told(self) -> dict[str, dict]:
        answered = await self.node.send("GET", "/-/models", headers=self.node.admin_headers)
        return {one["name"]: one for one in answered.json["models"]}


@asynccontextmanager
async def house(folder: Path, *names: str, **more):
    weights = weights_in(folder, *names)
    text = settings(*names, **more)
    async with running(text, folder / "data", weights=weights, engine=(answering_program_path(),)) as node:
        house = House(folder, node)
        yield house
    assert not [pid for _, pid in house.loads if Path(f"/proc/{pid}").exists()], "an engine was left behind"
    run = folder / "data" / "run"
    assert not run.exists() or list(run.iterdir()) == [], "a socket was left behind"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_twenty_swaps_under_load_fail_nobody_evict_nobody_busy_and_leave_nothing(tmp_path):
    names = ("one", "two", "three")
    chance = random.Random(7)
    async with house(tmp_path, *names) as here:
        node, pool = here.node, here.pool
        most_bytes = 0

        async def ask(number: int) -> tuple[str, int, str]:
            nonlocal most_bytes
            name = chance.choice(names)
            answered = await node.chat(f"question {number}", model=name, max_tokens=5, stream=number % 2 == 0)
            most_bytes = max(most_bytes, pool.taken_bytes)
            return name, answered.status, answered.text if answered.status == 200 else answered.body.decode()

        await ask(-1)
        files_before = open_files()
        asked = 0
        while pool.unloads < 20:
            told = await asyncio.gather(*(ask(asked + number) for number in range(12)))
            asked += 12
            assert [one for one in told if one[1:] != (200, f"I am {one[0]}")] == []
            assert asked < 2000, "nothing is swapped"
        await node.rest()

        assert most_bytes <= pool.budget_bytes
        assert not (tmp_path / "too-many").exists()
        assert len(here.loads) == pool.loads
        await until(lambda: open_files() <= files_before + 2)


async def test_a_busy_model_is_never_evicted_and_the_other_waits_for_it(tmp_path):
    async with house(tmp_path, "one", "two", memory=ONE_AT_ONCE) as here:
        busy = asyncio.create_task(here.node.chat("slowly", model="one", max_tokens=5))
        await until(lambda: here.pool.told()[0]["answering"] == 1 and here.pool.state_of("one") == "loaded")
        other = asyncio.create_task(here.node.chat("quickly", model="two", max_tokens=5))
        await until(lambda: here.pool.told()[1]["waiting"] == 1)
        assert [name for name, _ in here.loads] == ["one"]

        here.let_go()

        assert (await busy).text == "I am one"
        assert (await other).text == "I am two"
        assert [name for name, _ in here.loads] == ["one", "two"]


async def test_an_engine_killed_in_mid_stream_harms_nothing_but_that_answer(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        node = here.node
        answering, first = await node.begin_chat("hold", model="one", max_tokens=5, stream=True)
        assert b"I am one" in first
        other = await node.chat("quickly", model="two", max_tokens=5)
        os.kill(here.loads[0][1], signal.SIGKILL)
        rest = await answering.read()

        assert b'"error"' in rest
        assert b"[DONE]" not in rest
        assert other.text == "I am two"
        again = await node.chat("quickly", model="one", max_tokens=5)
        assert (again.status, again.text) == (200, "I am one")
        assert [name for name, _ in here.loads] == ["one", "two", "one"]
        not_kept = await node.chat("hold", {"cache-control": "only-if-cached"}, model="one", max_tokens=5, stream=True)
        assert not_kept.status == 504
        assert not_kept.json["error"]["code"] == "not_kept"


async def test_beyond_its_queue_a_model_answers_429_with_retry_after(tmp_path):
    async with house(tmp_path, "one", each="queue = 1") as here:
        asking = [asyncio.create_task(here.node.chat(f"slowly {n}", model="one", max_tokens=5)) for n in range(3)]
        await until(lambda: here.pool.told()[0]["waiting"] == 1)

        refused = await here.node.chat("slowly 4", model="one", max_tokens=5)
        here.let_go()

        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.json["error"]["code"] == "model_busy"
        assert [answered.status for answered in await asyncio.gather(*asking)] == [200, 200, 200]


async def test_a_request_may_say_how_long_the_model_stays_and_has_the_same_key(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        first = await here.node.chat("hi", {"foretold-keep-alive": "0"}, model="one", max_tokens=5)
        await until(lambda: here.pool.state_of("one") == "unloaded")
        again = await here.node.chat("hi", model="one", max_tokens=5)

        assert first.status == 200
        assert again.is_hit


async def test_a_keep_alive_that_cannot_be_read_is_refused_by_name(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        refused = await here.node.chat("hi", {"foretold-keep-alive": "5m"}, model="one", max_tokens=5)

    assert refused.status == 400
    assert "foretold-keep-alive is '5m'" in refused.json["error"]["message"]


async def test_models_are_looked_at_loaded_and_unloaded_by_whoever_has_the_admin_token(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        node, admin = here.node, here.node.admin_headers
        before = (await here.told())["two"]["state"]
        loaded = await node.post("/-/models/load", {"model": "two", "keep_alive": 60}, admin)
        listed = await here.told()
        unloaded = await node.post("/-/models/unload", {"model": "two"}, admin)

        assert before == "unloaded"
        assert (loaded.status, loaded.json["state"]) == (200, "loaded")
        assert 50 < listed["two"]["expires_in_s"] <= 60
        assert unloaded.json["state"] == "unloaded"
        assert (await node.send("GET", "/-/models")).status == 401


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"model": 1}', b'{"model": "one", "x": 1}', b'{"model": "one", "keep_alive": -2}']
)
async def test_what_is_no_request_for_a_model_is_refused(tmp_path, body):
    async with house(tmp_path, "one", "two") as here:
        refused = await here.node.send("POST", "/-/models/load", body, here.node.admin_headers)

    assert refused.status == 400
    assert refused.json["code"] == "bad_model_request"


async def test_an_unknown_model_is_a_404_that_names_the_known_ones(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        refused = await here.node.post("/-/models/unload", {"model": "three"}, here.node.admin_headers)

    assert refused.status == 404
    assert "known are one, two" in refused.json["detail"]


async def test_the_list_of_models_tells_what_each_is_and_whether_it_is_loaded(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        await here.node.post("/-/models/load", {"model": "one"}, here.node.admin_headers)
        listed = (await here.node.send("GET", "/v1/models")).json["data"]
        one = (await here.node.send("GET", "/v1/models/one")).json

    assert [(model["id"], model["state"]) for model in listed] == [("one", "loaded"), ("two", "unloaded")]
    assert one["capabilities"] == ["chat", "completion"]
    assert one["context"] == 2048
    assert one["languages"] == ["en"]
    assert len(one["revision"]) == 64


def test_a_model_over_the_budget_is_refused_with_both_numbers(tmp_path):
    weights = weights_in(tmp_path, "one")

    with pytest.raises(ModelError, match=r"'one' needs 50 MB of memory .* leaves it 20 MB"):
        local_models_of(load(settings("one", memory="20 MB")), weights, tmp_path / "run")


async def test_cores_are_shared_by_the_models_that_are_loaded(tmp_path):
    async with house(tmp_path, "one", "two") as here:
        for name in ("one", "two"):
            await here.node.post("/-/models/load", {"model": name}, here.node.admin_headers)
        shares = [line.split()[2] for line in (tmp_path / "loads").read_text().splitlines()]

    assert shares == ["1", "2"]


def sample(text: str, name: str, **labels: str) -> float:
    """A metric's value with these labels, in Prometheus' text."""
    wanted = "".join(f',{label}="{value}"' for label, value in sorted(labels.items()))[1:]
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name}{{{wanted}}} ")]
    return float(line.split()[-1])


async def test_what_happens_to_each_model_stands_in_metrics_and_stats(tmp_path):
    async with house(tmp_path, "one", "two", memory=ONE_AT_ONCE) as here:
        node = here.node
        for name in ("one", "two", "one"):
            await node.chat(f"hi {name}", {"cache-control": "no-store"}, model=name, max_tokens=5)
        os.kill(here.loads[-1][1], signal.SIGKILL)
        await until(lambda: here.pool.told()[0]["counts"]["failures"] == 1)
        await node.chat("hi again", model="one", max_tokens=5)
        slow = asyncio.create_task(node.chat("slowly", model="one", max_tokens=5))
        other = asyncio.create_task(node.chat("quickly", model="two", max_tokens=5))
        await until(lambda: here.pool.told()[1]["waiting"] == 1)
        text = (await node.send("GET", "/-/metrics", headers=node.admin_headers)).body.decode()
        rows = {row["name"]: row for row in (await node.stats())["models"]}
        here.let_go()
        await asyncio.gather(slow, other)

    assert sample(text, "foretold_model_evictions_total", model="one") == 1
    assert sample(text, "foretold_model_loads_total", model="two") == 1
    assert sample(text, "foretold_model_failures_total", model="one") == 1
    assert sample(text, "foretold_model_restarts_total", model="one") == rows["one"]["restarts"] == 1
    assert sample(text, "foretold_model_answering", model="one") == 1
    assert sample(text, "foretold_model_waiting", model="two") == 1
    assert sample(text, "foretold_model_memory_bytes", model="one") > MODEL_BYTES
    assert sample(text, "foretold_model_state", model="one", state="loaded") == 1
    assert sample(text, "foretold_model_state", model="one", state="unloaded") == 0
    assert (rows["two"]["state"], rows["two"]["waiting"]) == ("unloaded", 1)
