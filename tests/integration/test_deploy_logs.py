"""`foretold deploy cloudflare logs`: what the Worker does just now, and what it has kept."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Finished, command, environment, run
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, CloudflareApi
from tests.fakes.cloudflare_api.things import Bucket, Token

EDGE = f"""
account_id = "{ACCOUNT_ID}"
[worker]
entry = "worker.js"
workers_dev = true
[logs]
bucket = "prediction-logs"
"""
ASKED: dict[str, Any] = {
    "scriptName": "prediction-worker",
    "outcome": "ok",
    "eventTimestamp": 1_796_000_000_000,
    "event": {
        "request": {
            "url": "https://ai.example.com/v1/chat/completions?key=sk-in-the-query",
            "method": "POST",
            "headers": {"authorization": "Bearer sk-in-a-header"},
        },
        "response": {"status": 200},
    },
    "logs": [{"level": "warn", "message": ["slow", {"tier": "kv"}], "timestamp": 1}],
    "exceptions": [],
}
FAILED: dict[str, Any] = {
    **ASKED,
    "outcome": "exception",
    "logs": [],
    "exceptions": [{"name": "TypeError", "message": "x is not a function", "timestamp": 1}],
    "event": {"request": {"url": "https://ai.example.com/", "method": "GET"}},
}


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        running.things.add_script("prediction-worker")
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "edge.toml").write_text(EDGE)
    (tmp_path / "worker.js").write_text("export default {};\n")
    return tmp_path


def _around(api: CloudflareApi) -> dict[str, str]:
    return {"CLOUDFLARE_API_TOKEN": TOKEN, "CLOUDFLARE_API_BASE_URL": api.url}


@asynccontextmanager
async def _listening(api: CloudflareApi, folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command(),
        *("deploy", "cloudflare", "logs", *words),
        env=environment(folder, _around(api)),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await api.called("POST", "/tails")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _ended(process: asyncio.subprocess.Process) -> Finished:
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


async def _logs(api: CloudflareApi, folder: Path, *words: str) -> Finished:
    return await run("deploy", "cloudflare", "logs", *words, home=folder, **_around(api))


async def test_each_run_is_a_line_with_what_was_said_below_it(api, folder):
    async with _listening(api, folder, "--count", "2") as process:
        api.log("prediction-worker", ASKED)
        api.log("prediction-worker", FAILED)
        ended = await _ended(process)

    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "2026-11-30T00:53:20Z  200  POST ai.example.com/v1/chat/completions",
        '    warn: slow {"tier": "kv"}',
        "2026-11-30T00:53:20Z  -  GET ai.example.com/  exception",
        "    TypeError: x is not a function",
    ]
    assert api.things.tails == {}


async def test_no_header_field_and_no_query_is_shown(api, folder):
    async with _listening(api, folder, "--count", "1", "--json") as process:
        api.log("prediction-worker", ASKED)
        ended = await _ended(process)

    assert json.loads(ended.out)["what"] == "POST ai.example.com/v1/chat/completions"
    assert "sk-in" not in ended.out + ended.err


async def test_the_tail_ends_with_ctrl_c(api, folder):
    async with _listening(api, folder) as process:
        api.log("prediction-worker", ASKED)
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readline(), 60)
        process.send_signal(signal.SIGINT)
        ended = await _ended(process)

    assert (ended.code, "Traceback" in ended.err) == (130, False)
    assert api.things.tails == {}


async def test_a_tail_that_cloudflare_ends_is_told(api, folder):
    async with _listening(api, folder) as process:
        api.log("prediction-worker", None)
        ended = await _ended(process)

    assert ended.code == 5
    assert "Cloudflare ended the tail" in ended.err
    assert "run it again" in ended.err


async def test_a_worker_that_is_not_there_has_no_logs(api, folder):
    api.things.scripts.clear()

    ended = await _logs(api, folder)

    assert ended.code == 1
    assert "listening to the Worker prediction-worker: This Worker does not exist" in ended.err


async def test_a_token_that_may_not_listen_is_told_what_it_lacks(api, folder):
    api.things.tokens[TOKEN] = Token({"Workers Scripts Read"})

    ended = await _logs(api, folder)

    assert ended.code == 4
    assert "Account · Workers Tail · Read" in ended.err


async def test_what_was_kept_is_shown_the_oldest_first(api, folder):
    objects = {
        "2026/11/29/a.jsonl.gz": gzip.compress(b'{"n":1}\n{"n":2}\n'),
        "2026/11/30/b.jsonl": b'{"n":3}\n',
        "2026/11/30/c.jsonl": b'{"n":4}\n',
    }
    api.things.buckets["prediction-logs"] = Bucket("prediction-logs", objects=objects)

    everything = await _logs(api, folder, "--kept")
    newest = await _logs(api, folder, "--kept", "--last", "1")

    assert everything.out.splitlines() == ['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}']
    assert newest.out.splitlines() == ['{"n":4}']


async def test_what_was_kept_in_more_than_a_page_of_objects_is_found(api, folder):
    objects = {f"{n:05}": f"{n}\n".encode() for n in range(2100)}
    api.things.buckets["prediction-logs"] = Bucket("prediction-logs", objects=objects)

    newest = await _logs(api, folder, "--kept", "--last", "2")

    assert newest.out.splitlines() == ["2098", "2099"]


async def test_without_a_bucket_for_them_no_logs_are_kept(api, folder):
    (folder / "edge.toml").write_text(EDGE.partition("[logs]")[0])

    ended = await _logs(api, folder, "--kept")

    assert ended.code == 3
    assert "name a bucket in [logs]" in ended.err
