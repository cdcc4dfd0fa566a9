"""`foretold deploy cloudflare` as people run it, before a strict stand-in for Cloudflare's API."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.program import START_S, Finished, command, environment, run
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, ZONE_ID, CloudflareApi

EDGE = f"""
account_id = "{ACCOUNT_ID}"
secrets = {{ UPSTREAM_KEY = {{ env = "OPENAI_API_KEY" }} }}
[worker]
entry = "worker.js"
[route]
zone_id = "{ZONE_ID}"
pattern = "example.com/predict*"
[r2]
bucket = "prediction-bodies"
"""


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "edge.toml").write_text(EDGE)
    (tmp_path / "worker.js").write_text('import { answer } from "./answer.js";\nexport default answer;\n')
    (tmp_path / "answer.js").write_text("export const answer = {};\n")
    return tmp_path


def _around(api: CloudflareApi) -> dict[str, str]:
    return {
        "CLOUDFLARE_API_TOKEN": TOKEN,
        "OPENAI_API_KEY": "sk-of-a-test",
        "CLOUDFLARE_API_BASE_URL": api.url,
    }


async def _deploy(api: CloudflareApi, folder: Path, *words: str, **more: str) -> Finished:
    return await run("deploy", "cloudflare", *words, home=folder, **{**_around(api), **more})


async def test_from_an_empty_account_to_a_worker_and_back(api, folder):
    first = await _deploy(api, folder, "apply", "--yes")
    writes = len(api.writes)
    again = await _deploy(api, folder, "apply")
    status = await _deploy(api, folder, "status", "--json")
    gone = await _deploy(api, folder, "destroy", "--yes")

    namespace_id = status.json["kv_namespace_id"]
    told = dict(line.split("\t") for line in first.out.splitlines() if "\t" in line)
    assert told == {
        "kv_namespace_id": namespace_id,
        "worker_script_name": "prediction-worker",
        "worker_route_pattern": "example.com/predict*",
        "url": "https://example.com",
        "not tried": "a miss and a hit: no model is named; set `model` in [trial], or run `try MODEL`",
    }
    assert (first.code, again.code, status.code, gone.code) == (0, 0, 0, 0), first.err + gone.err
    assert again.out.startswith("no change\n")
    assert status.json["bindings"] == ["PREDICTION_BODIES", "PREDICTION_CACHE", "UPSTREAM_KEY"]
    assert writes == 6
    assert gone.out == "4 removed\n"
    assert (api.things.scripts, api.things.routes, api.things.namespaces, api.things.buckets) == ({}, {}, [], {})
    assert "sk-of-a-test" not in "".join(f.out + f.err for f in (first, again, status, gone))


async def test_outputs_can_be_read_by_programs(api, folder):
    applied = await _deploy(api, folder, "apply", "--yes", "--json")

    assert applied.json["kv_namespace_id"] == api.things.namespace("PredictionCache").id
    assert applied.json["worker_script_name"] == "prediction-worker"
    assert applied.json["worker_route_pattern"] == "example.com/predict*"
    assert applied.json["changed"] is True
    assert json.loads((await _deploy(api, folder, "apply", "--json")).out)["changed"] is False


async def test_a_plan_shows_steps_hosts_and_cost_and_writes_nothing(api, folder):
    planned = await _deploy(api, folder, "plan")

    assert "create  KV namespace  PredictionCache" in planned.out
    assert "upload  Worker        prediction-worker  (it is not there yet)" in planned.out
    assert "the route catches example.com alone; paths that begin with /predict" in planned.out
    assert " 95 % hits  $" in planned.out
    assert api.writes == []


async def test_without_a_terminal_and_without_yes_nothing_is_changed(api, folder):
    refused = await _deploy(api, folder, "apply")

    assert refused.code == 2
    assert "add --yes" in refused.err
    assert api.writes == []


async def test_a_route_of_somebody_else_ends_with_exit_7_and_names_the_owner(api, folder):
    api.things.add_script("their-worker")
    api.things.add_route("example.com/predict*", "their-worker")

    refused = await _deploy(api, folder, "apply", "--yes")

    assert refused.code == 7
    assert "belongs to the Worker 'their-worker'" in refused.err
    assert api.writes == []


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        ({"CLOUDFLARE_API_TOKEN": ""}, 4, "CLOUDFLARE_API_TOKEN is not set"),
        ({"CLOUDFLARE_API_TOKEN": "two words"}, 4, "has a space"),
        ({"CLOUDFLARE_API_TOKEN": "wrong"}, 4, "doesn't know this API token"),
        ({"OPENAI_API_KEY": ""}, 3, "secret UPSTREAM_KEY is not at hand"),
    ],
)
async def test_what_is_missing_around_it_is_told(api, folder, more, code, says):
    ended = await _deploy(api, folder, "plan", **more)

    assert (ended.code, says in ended.err) == (code, True), ended.err
    assert "Traceback" not in ended.err


async def test_a_folder_without_edge_toml_is_told(api, tmp_path):
    ended = await _deploy(api, tmp_path, "plan")

    assert ended.code == 3
    assert "there is no edge.toml, which says what to deploy" in ended.err


async def test_what_ctrl_c_interrupts_goes_on_with_the_next_apply(api, folder):
    await _deploy(api, folder, "plan")
    # The second write: that of the bucket.
    held = api.hold(len(api.calls) + 2)
    process = await asyncio.create_subprocess_exec(
        *command(),
        *("deploy", "cloudflare", "apply", "--yes"),
        env=environment(folder, {**_around(api)}),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await api.holding()
    process.send_signal(signal.SIGINT)
    _, said = await asyncio.wait_for(process.communicate(), START_S)
    held.set()

    again = await _deploy(api, folder, "apply", "--yes")

    assert process.returncode == 130, said.decode()
    assert "what was done stays; run it again to go on" in said.decode()
    assert again.code == 0, again.err
    assert len(api.things.namespaces) == len(api.things.buckets) == len(api.things.routes) == 1
