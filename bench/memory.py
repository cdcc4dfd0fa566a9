"""What an answer kept in memory really takes, beside what the memory tier counts for it.

python bench/memory.py [--entries N]

Each way of filling has a process of its own, and the growth of its resident memory is read.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from cases import CHAT, NEW, NUMBER  # noqa: E402 - the sources of this tree come first
from msgspec.structs import replace  # noqa: E402
from servers import Mock  # noqa: E402

from foretold.assemble import assemble  # noqa: E402
from foretold.config import load  # noqa: E402
from foretold.contract.record import open_sealed, pack  # noqa: E402
from foretold.datafolder import DataFolder  # noqa: E402
from foretold.live import Live  # noqa: E402
from foretold.memo import Memo  # noqa: E402
from foretold.node import Node  # noqa: E402
from foretold.server.app import App  # noqa: E402
from foretold.stores.memory import MemoryStore  # noqa: E402
from foretold.tiers.order import Tiers  # noqa: E402
from foretold.tiers.tier import Tier  # noqa: E402

_SECRET = bytes(32)
_NO_LIMIT = 2**40
# What the interpreter takes once, such as its own pools, is taken before anything is measured.
_BEFORE = 3000


@dataclass(frozen=True)
class Growth:
    """Bytes an entry: of resident memory, as the memory tier counts them, and of the blob or body itself."""

    resident: float
    counted: float
    kept_bytes: int


class Asking:
    """A node asked as its server asks it, without the server."""

    def __init__(self, app: App, node: Node, secret: bytes):
        self.node = node
        self._secret = secret
        self.memory = node.tiers.memory
        self._app = app

    async def ask(self, number: int) -> None:
        body = NEW.replace(NUMBER, f"{number:016d}").encode()
        headers = [(b"host", b"127.0.0.1"), (b"content-length", b"%d" % len(body))]
        scope = {"type": "http", "method": "POST", "raw_path": CHAT.encode(), "query_string": b"", "headers": headers}
        asked, answered = iter([{"type": "http.request", "body": body, "more_body": False}]), asyncio.Event()
        status = 0

        async def receive() -> dict[str, Any]:
            for message in asked:
                return message
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)

        await self._app(scope, receive, send)
        assert status == 200

    async def resealed(self) -> bytes:
        """The record that lies on disk, as one of another deployment."""
        await self.node.keeping.flush()
        disk = self.node.tiers.below[0].store
        blob = await disk.get(next(self.memory.scan()))
        assert blob is not None
        return pack(open_sealed(blob, self._secret), _SECRET)


@asynccontextmanager
async def asking(*, memory: str = "1024 GiB", disk: str = "") -> AsyncIterator[Asking]:
    """A node before an upstream that keeps up to so much in memory, and on disk if that is given."""
    with tempfile.TemporaryDirectory(prefix="foretold-bench-") as name:
        folder = Path(name)
        mock = Mock(folder)
        try:
            tiers = [("memory", memory), *([("disk", disk)] if disk else [])]
            written = "".join(f'[[tiers]]\nstore = "{store}"\nlimit = "{limit}"\n' for store, limit in tiers)
            config = load(f'[upstreams.mock]\nurl = "{mock.url}/v1"\n{written}')
            assembled = assemble(config, DataFolder(folder / "data"), weights={}, run_folder=folder)
            app = Live(config, assembled, base_url="", is_ready=lambda: True, read=lambda: config).app
            yield Asking(app, assembled.node, assembled.secret)
            await assembled.node.close()
        finally:
            mock.stop()


class Below:
    """A store that has the same record under every name."""

    name = "below"

    def __init__(self, blob: bytes):
        self.record = open_sealed(blob, _SECRET)

    async def get(self, name: str) -> bytes:
        return pack(replace(self.record, key=name), _SECRET)


async def blobs(entries: int) -> Growth:
    """Bare blobs in the store, nothing derived from them."""
    blob = await one_blob()
    store = MemoryStore(_NO_LIMIT, largest_bytes=2**20, now_ms=now_ms)

    async def put(number: int) -> None:
        await store.put(_name(number), bytes(bytearray(blob)), keep_s=3600)

    return await _growth(put, entries, store, kept_bytes=len(blob))


async def misses(entries: int) -> Growth:
    """Answers that came from an origin."""
    async with asking() as node:

        async def ask(number: int) -> None:
            await node.ask(number)
            # It would share texts with the records, and grow beside them.
            node.node.memo.clear()

        return await _growth(ask, entries, node.memory, kept_bytes=0)


async def given(entries: int) -> Growth:
    """The same, each then given once, so that what goes out lies ready beside it."""
    async with asking() as node:

        async def ask(number: int) -> None:
            await node.ask(number)
            await node.ask(number)
            node.node.memo.clear()

        return await _growth(ask, entries, node.memory, kept_bytes=0)


async def come_up(entries: int) -> Growth:
    """Records that came up from the tier below."""
    blob = await one_blob()
    below = Below(blob)
    store = MemoryStore(_NO_LIMIT, largest_bytes=2**20, now_ms=now_ms)
    tiers = Tiers(store, [Tier(below, deadline_s=1)], secret=_SECRET, now_ms=now_ms)  # type: ignore[arg-type]

    async def look_up(number: int) -> None:
        assert await tiers.look_far(_name(number), below.record.namespace)

    return await _growth(look_up, entries, store, kept_bytes=len(blob))


async def named(entries: int) -> Growth:
    """What the memo remembers of each body; of the answers only the last few are kept."""
    async with asking(memory="1 MiB") as node:
        node.node.memo = Memo(body_bytes=_NO_LIMIT)
        return await _growth(node.ask, entries, node.memory, kept_bytes=len(NEW.replace(NUMBER, "0" * 16)))


async def one_blob() -> bytes:
    """A record of the benchmark's answer, sealed by `_SECRET`."""
    async with asking(disk="16 MiB") as node:
        await node.ask(0)
        return await node.resealed()


WAYS = {way.__name__: way for way in (blobs, misses, come_up, given, named)}


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--entries", type=int, default=100_000)
    asked.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    args = asked.parse_args()
    if args.way:
        print(json.dumps(asdict(asyncio.run(WAYS[args.way](args.entries)))))
        return 0
    tell({name: _in_own_process(name, args.entries) for name in WAYS})
    return 0


def tell(found: dict[str, Growth]) -> None:
    print(f"{'entries that are':16} {'MiB per 100,000':>16} {'counted':>8} {'bytes each':>11} {'counted':>8}")
    for name, growth in found.items():
        told = _mib(growth.resident), _mib(growth.counted), growth.resident, growth.counted
        print("{:16} {:16.0f} {:8.0f} {:11.0f} {:8.0f}".format(name.replace("_", " "), *told))
    blob, body = found["blobs"], found["named"]
    derived = max(found["misses"].resident, found["come_up"].resident) - blob.resident
    print(f"\na blob here has {blob.kept_bytes} bytes, a request body {body.kept_bytes}; to be counted:")
    print(f"  {blob.resident - blob.kept_bytes:.0f} bytes for an entry beside its blob")
    print(f"  {derived:.0f} bytes for what is derived from a blob")
    print(
        f"  {found['given'].resident - found['misses'].resident:.0f} bytes for what lies ready to go out, beside a body"
    )
    print(f"  {body.resident - body.kept_bytes:.0f} bytes for a body in the memo beside its own")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _growth(
    fill: Callable[[int], Awaitable[None]], entries: int, store: MemoryStore, *, kept_bytes: int
) -> Growth:
    for number in range(_BEFORE):
        await fill(number)
    gc.collect()
    resident, counted = _resident_bytes(), store.held_bytes
    for number in range(_BEFORE, _BEFORE + entries):
        await fill(number)
    gc.collect()
    grown, counted = _resident_bytes() - resident, store.held_bytes - counted
    return Growth(grown / entries, counted / entries, kept_bytes)


def _in_own_process(way: str, entries: int) -> Growth:
    command = [sys.executable, __file__, "--entries", str(entries), "--way", way]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Growth(**json.loads(done.stdout))


def _name(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _mib(bytes_each: float) -> float:
    return bytes_each * 100_000 / 2**20


if __name__ == "__main__":
    sys.exit(main())
