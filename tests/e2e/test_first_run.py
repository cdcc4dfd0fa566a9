"""From nothing to an answer: the banner's own curl line twice, then kill -9, and it is still a hit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.e2e.program import START_S, Node, command, environment


def curl(line: str) -> tuple[dict[str, str], dict, float]:
    """Headers, body and seconds of a curl line as the banner prints it."""
    began = time.perf_counter()
    done = subprocess.run(["sh", "-c", line.replace("curl -i", "curl -s -i")], capture_output=True, check=True)
    took_s = time.perf_counter() - began
    head, _, body = done.stdout.decode().partition("\r\n\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (h.partition(":") for h in head.split("\r\n")[1:])}
    return headers, json.loads(body), took_s


@asynccontextmanager
async def started(home: Path, port: int = 0) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[str]]]:
    """The program with its banner, read up to its last line; killed if it is still there at the end."""
    process = await asyncio.create_subprocess_exec(
        *command(), "serve", "--port", str(port), env=environment(home), cwd=home, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while not lines or not lines[-1].startswith("Ready in"):
            line = await asyncio.wait_for(process.stderr.readline(), START_S)
            assert line, lines
            lines.append(line.decode().rstrip("\n"))
        yield process, lines
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_printed_curl_line_is_a_miss_then_a_hit_and_still_one_after_kill_9(tmp_path):
    async with started(tmp_path) as (process, banner):
        line = next(text.strip() for text in banner if text.strip().startswith("curl "))
        port = int(line.partition("127.0.0.1:")[2].partition("/")[0])
        miss_headers, miss, _ = curl(line)
        hits = [curl(line) for _ in range(5)]
        await Node(process, f"http://127.0.0.1:{port}", tmp_path).written(1)
        os.kill(process.pid, signal.SIGKILL)
    async with started(tmp_path, port):
        after_headers, after, _ = curl(line)

    assert miss_headers["cache-status"].startswith("Foretold; fwd=uri-miss; stored")
    assert miss["choices"][0]["message"]["content"]
    for headers, body, _ in [*hits, (after_headers, after, 0)]:
        assert headers["cache-status"].startswith("Foretold; hit; ttl=8")
        assert body == miss
        assert int(headers["age"]) >= 0
    assert "age" not in miss_headers


async def test_everything_the_banner_promises_is_there(tmp_path):
    async with started(tmp_path) as (process, banner):
        process.send_signal(signal.SIGINT)
        code = await asyncio.wait_for(process.wait(), 30)
        assert process.stderr is not None
        rest = (await process.stderr.read()).decode()

    text = "\n".join(banner)
    for promised in (
        "smollm2-135m",
        "Apache-2.0",
        "/v1 ",
        "fwd=uri-miss; stored",
        "hit; ttl=",
        "Ctrl-C",
        str(tmp_path),
    ):
        assert promised in text
    assert code == 130
    assert "Traceback" not in rest
