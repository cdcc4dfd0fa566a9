"""Models that another program runs: begun, watched and ended by the node, which keeps none of what it did not finish."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foretold.config import load
from foretold.models.choices import Choices
from foretold.models.renewal import Renewal
from foretold.models.weights import held, weights_of
from tests.e2e.program import serving
from tests.library.worlds import Told
from tests.running import Client, running
from tests.waiting import until

PROGRAM = str(Path(__file__).parents[1] / "fakes" / "openai_program.py")


def settings(folder: Path, *, listen: str = "--port", more: str = "", limit: str = "load_timeout = '20 s'") -> str:
    place = "{port}" if listen == "--port" else "{socket}"
    return f"""
[models.own]
engine = "command"
command = ["{sys.executable}", "{PROGRAM}", "{listen}", "{place}"]
environment = {{ WORLD = "{folder}", KEY = "{{api_key}}" }}
revision = "one"
model = "there"
memory = "20 MB"
context = 512
capabilities = ["chat"]
languages = ["en"]
parallel = 2
ready = "/ready"
keep_alive = "1h"
{limit}
{more}
[models.other]
engine = "command"
command = ["{sys.executable}", "{PROGRAM}", "--port", "{{port}}"]
environment = {{ WORLD = "{folder}" }}
revision = "one"
memory = "20 MB"
context = 512
ready = "/ready"
"""


@asynccontextmanager
async def node_of(text: str, folder: Path) -> AsyncIterator[Client]:
    with held() as using:
        weights = await weights_of(load(text), folder / "models", using=using, tell=Told())
        async with running(text, folder / "data", weights=weights) as node:
            yield node
    assert alive(folder) == [], "a program was left behind"


def pids(folder: Path) -> list[int]:
    file = folder / "pids"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def alive(folder: Path) -> list[int]:
    return [pid for pid in pids(folder) if _runs(pid)]


def _runs(pid: int) -> bool:
    """Whether a process is there that has not ended: whoever inherits it may take a while to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("listen", ["--port", "--socket"])
async def test_a_program_answers_as_any_model_does_and_is_asked_for_what_it_knows(tmp_path, listen):
    async with node_of(settings(tmp_path, listen=listen), tmp_path) as node:
        whole = await node.chat("hello", model="own", max_tokens=9)
        again = await node.chat("hello", model="own", max_tokens=9, stream=True)
        model = (await node.send("GET", "/v1/models/own")).json

    (asked,) = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert (whole.status, whole.text) == (200, "I am a program")
    assert (again.is_hit, again.text) == (True, "I am a program")
    assert (asked["model"], asked["stream"], asked["max_tokens"]) == ("there", True, 9)
    assert not {"return_progress", "cache_prompt"} & set(asked)
    assert (model["capabilities"], model["context"], model["languages"]) == (["chat"], 512, ["en"])
    assert len(model["revision"]) == 64


async def test_a_program_gets_what_the_settings_give_it_and_nothing_of_the_node(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with node_of(settings(tmp_path), tmp_path) as node:
        await node.chat("hello", model="own")
        given = json.loads((tmp_path / "environment.json").read_text())

    assert int((tmp_path / "limit").read_text()) == 20_000_000 * 5 // 4 + 512 * 2**20
    assert "OPENAI_API_KEY" not in given
    assert given["KEY"] == given["FORETOLD_API_KEY"] != ""
    assert set(given) <= {
        "WORLD",
        "KEY",
        "FORETOLD_API_KEY",
        "PATH",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
    }


async def test_a_program_that_dies_in_mid_stream_costs_that_answer_and_is_begun_again(tmp_path):
    async with node_of(settings(tmp_path), tmp_path) as node:
        answering, first = await node.begin_chat("crash", model="own", stream=True)
        rest = first + await answering.read()
        kept = await node.chat("crash", {"cache-control": "only-if-cached"}, model="own", stream=True)
        again = await node.chat("hello", model="own")
        (counts,) = [one["counts"] for one in node.assembled.models.pool.told() if one["name"] == "own"]

    assert b'"error"' in rest
    assert b"[DONE]" not in rest
    assert kept.status == 504
    assert (again.status, again.text) == (200, "I am a program")
    assert len(pids(tmp_path)) == 2
    assert (counts["failures"], counts["restarts"]) == (1, 1)


async def test_a_program_that_hangs_is_killed_by_the_watchdog_and_begun_again(tmp_path):
    async with node_of(settings(tmp_path, more='silence = "500 ms"'), tmp_path) as node:
        answering, first = await node.begin_chat("hang", model="own", stream=True)
        rest = first + await answering.read()
        again = await node.chat("hello", model="own")

        assert b'"error"' in rest
        assert (again.status, again.text) == (200, "I am a program")
        assert len(alive(tmp_path)) == 1


async def test_why_a_program_did_not_start_is_told_with_what_it_said_last(tmp_path):
    (tmp_path / "mood").write_text("refuses")
    async with node_of(settings(tmp_path), tmp_path) as node:
        told = await node.post("/-/models/load", {"model": "own"}, node.admin_headers)
        asked = await node.chat("hello", model="own")

    assert told.status == 503
    assert "exited with 7 before it served" in told.json["detail"]
    assert "the weights are of no kind that is known" in told.json["detail"]
    assert asked.status == 503
    assert "weights" not in asked.json["error"]["message"]


async def test_a_program_that_is_never_ready_is_ended_at_its_time_out(tmp_path):
    (tmp_path / "mood").write_text("never-ready")
    async with node_of(settings(tmp_path, limit='load_timeout = "1 s"'), tmp_path) as node:
        told = await node.post("/-/models/load", {"model": "own"}, node.admin_headers)

    assert told.status == 503
    assert "did not answer 200 at /ready within 1 s (it answers 503)" in told.json["detail"]


async def test_a_program_that_is_not_there_is_told_by_its_name(tmp_path):
    text = settings(tmp_path).replace(sys.executable, "/no/such/program", 1)
    async with node_of(text, tmp_path) as node:
        told = await node.post("/-/models/load", {"model": "own"}, node.admin_headers)

    assert told.status == 503
    assert "'/no/such/program' can't be started: No such file or directory" in told.json["detail"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_what_a_program_has_begun_ends_with_it(tmp_path, number):
    (tmp_path / "mood").write_text("begets")
    async with node_of(settings(tmp_path), tmp_path) as node:
        await node.chat("hello", model="own")
        host = node.assembled.models.asked("own").host
        assert len(alive(tmp_path)) == 2
        os.kill(host.door.pid, number)

        await until(lambda: alive(tmp_path) == [])


async def test_programs_make_room_for_each_other_as_all_models_do(tmp_path):
    async with node_of("[pool]\nmemory = '30 MB'" + settings(tmp_path), tmp_path) as node:
        for name in ("own", "other", "own"):
            assert (await node.chat(f"hello {name}", {"cache-control": "no-store"}, model=name)).status == 200
        pool = node.assembled.models.pool

        assert (pool.state_of("own"), pool.state_of("other")) == ("loaded", "unloaded")
        assert len(alive(tmp_path)) == 1


async def test_kill_9_of_the_node_ends_its_programs_and_what_they_began(tmp_path):
    (tmp_path / "mood").write_text("begets")
    async with serving(tmp_path, settings(tmp_path, more="pin = true")) as node:
        await until(lambda: len(alive(tmp_path)) == 2)
        node.process.kill()
        await node.process.wait()

        await until(lambda: alive(tmp_path) == [])


async def test_a_promotion_takes_another_program_into_force_and_fails_nobody(tmp_path):
    text = settings(tmp_path)
    with held() as using:
        weights = await weights_of(load(text), tmp_path / "models", using=using, tell=Told())
        choices = Choices(tmp_path / "promoted.json")
        async with running(
            text,
            tmp_path / "data",
            weights=weights,
            brings=lambda read: Renewal(tmp_path, using=using, choices=choices, read=read),
        ) as node:
            asking = [asyncio.create_task(node.chat(f"hello {n}", model="own")) for n in range(8)]
            node.written[0] = text.replace('revision = "one"', 'revision = "two"', 1)
            told = await node.post("/-/models/promote", {"model": "own"}, node.admin_headers)
            statuses = [answered.status for answered in await asyncio.gather(*asking)]
            after = await node.chat("hello 1", model="own")
            pinned = await node.post("/-/models/promote", {"model": "own", "revision": "0" * 64}, node.admin_headers)

    assert (told.status, told.json["promoted"]) == (200, True)
    assert statuses == [200] * 8
    assert (after.status, after.is_hit) == (200, False)
    assert pinned.status == 409


async def test_a_node_of_several_processes_has_one_program_for_all_which_is_promoted_for_all(tmp_path):
    (tmp_path / "token").write_text("a secret")
    text = settings(tmp_path).replace('KEY = "{api_key}"', f'KEY = {{ file = "{tmp_path}/token" }}')
    async with serving(tmp_path, text, "--workers", "2") as node:
        asked = {"model": "own", "messages": [{"role": "user", "content": "hello"}]}
        headers = {"cache-control": "no-store", "connection": "close"}
        before = [await node.post("/v1/chat/completions", asked, headers) for _ in range(6)]
        given = json.loads((tmp_path / "environment.json").read_text())
        (tmp_path / "given.toml").write_text(text.replace('revision = "one"', 'revision = "two"', 1))
        promoted, _, told = await node.post("/-/models/promote", {"model": "own"}, node.admin_headers)
        after = [await node.post("/v1/chat/completions", asked, headers) for _ in range(6)]
        await until(lambda: len(alive(tmp_path)) == 1)

    assert [status for status, _, _ in [*before, *after]] == [200] * 12
    assert given["KEY"] == "a secret"
    assert (promoted, json.loads(told)["promoted"]) == (200, True)
    assert len(pids(tmp_path)) == 2
    assert alive(tmp_path) == []
