"""Tokens a second of the bundled model through Foretold, beside the same engine asked by itself.

python bench/tokens.py [--pairs N] [--tokens N] [--only-print]

Every question is new, so all are misses.  Both engines have the same parameters and eight slots, are asked for the same
streams, and take turns.  Ends with an error where less than 0.90 of the engine's speed is left, except with
`--only-print`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import HERE, Server, free_port

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.launch import Launch
from foretold.models.manifest import SMOLLM2
from foretold.origins.fields import engine_body

LEAST, GOAL = 0.90, 0.97
FIRST_TOKEN_GOAL_MS = 5.0
SLOTS, CONTEXT = 8, 512
# Callers at once, and the turns of a pair: short ones in alternation, so that what else the machine does meets both.
CROWDS = {1: "ABBA" * 4, 4: "ABBA" * 2, 8: "ABBA"}
FIRST_TOKENS = 40
MANIFEST = SMOLLM2.with_settings(name=SMOLLM2.name, context=CONTEXT, max_tokens=256, parallel=SLOTS)
# The model's two ways to end: forbidden, so that every answer is as long as it may be.
_NO_END = {"0": -100, "2": -100}
_PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
_SAID = re.compile(rb'"(?:content|text)":"[^"]')


class Wrong(Exception):
    """What was measured is not what should have been."""


class Quiet:
    def step(self, text: str) -> None:
        print(text, file=sys.stderr)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        """Nobody watches."""


@dataclass(frozen=True)
class Turn:
    """What one server did with some questions."""

    tokens: int
    took_s: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.tokens / self.took_s

    def __add__(self, other: Turn) -> Turn:
        return Turn(self.tokens + other.tokens, self.took_s + other.took_s, self.cpu_s + other.cpu_s)


@dataclass(frozen=True)
class Side:
    """A server, and how it is asked."""

    server: Server
    written: Callable[[str, dict[str, Any]], bytes]

    async def story(self, number: int, tokens: int) -> None:
        """An answer of just so many tokens after a short prompt, as most of them are made one by one."""
        said = [{"role": "system", "content": "Tell."}, {"role": "user", "content": f"Story {number}"}]
        await self._ask("chat", {"messages": said}, tokens)

    async def first_token(self, number: int) -> float:
        """Seconds to it, after a prompt so short that reading it hides nothing."""
        return await self._ask("completion", {"prompt": f"{number}"}, 2)

    async def _ask(self, operation: str, asked: dict[str, Any], tokens: int) -> float:
        """Seconds to the first token of a whole answer.  Raises Wrong unless it has just so many tokens."""
        body = self.written(operation, asked | {"max_tokens": tokens, "temperature": 0, "logit_bias": _NO_END})
        place = urllib.parse.urlsplit(self.server.url)
        began_s, first_s, came = time.perf_counter(), 0.0, bytearray()
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        head = (
            f"POST {_PATHS[operation]} HTTP/1.1\r\nhost: {place.netloc}\r\nconnection: close\r\nauthorization: Bearer k\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        while piece := await reader.read(65_536):
            came += piece
            if not first_s and _SAID.search(came):
                first_s = time.perf_counter() - began_s
        writer.close()
        told = re.search(rb'"completion_tokens":(\d+)', came[-4000:])
        if b" 200 " not in came[:20] or told is None or int(told[1]) != tokens or b"; hit" in came[:2000]:
            raise Wrong(f"{self.server.name}: not a miss with {tokens} tokens: {bytes(came[:400])!r}")
        return first_s

    async def crowd(self, numbers: Iterator[int], tokens: int, *, callers: int, each: int) -> Turn:
        """So many callers at once, each with so many questions one after the other."""

        async def caller(mine: list[int]) -> None:
            for number in mine:
                await self.story(number, tokens)

        cpu_ns, began_s = self.server.quiet_cpu_ns(), time.perf_counter()
        await asyncio.gather(*(caller([next(numbers) for _ in range(each)]) for _ in range(callers)))
        took_s = time.perf_counter() - began_s
        return Turn(callers * each * tokens, took_s, (self.server.quiet_cpu_ns() - cpu_ns) / 1e9)


@contextmanager
def sides() -> Iterator[tuple[Side, Side]]:
    """The engine by itself, and a node with the same one."""
    weights = bundled.ensure(SMOLLM2, models_folder(), tell=Quiet())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foretold-bench-")))
        port = free_port()
        launch = Launch(
            alias=MANIFEST.name,
            weights=str(weights),
            socket="",
            api_key="k",
            parent_pid=os.getpid(),
            memory_bytes=MANIFEST.memory_bytes,
            context=CONTEXT,
            parallel=SLOTS,
            cache_type_k=MANIFEST.cache_type_k,
            cache_type_v=MANIFEST.cache_type_v,
        )
        (folder / "launch").write_bytes(launch.line())
        bare = Server(
            "bare", [sys.executable, str(HERE / "bare_engine.py"), str(folder / "launch"), str(port)], folder, core=None
        )
        stack.callback(bare.stop)
        settings = folder / "node.toml"
        settings.write_text(
            f'data = "{folder / "data"}"\n[logs]\nqueries = "off"\n'
            f"[models.{MANIFEST.name}]\ncontext = {CONTEXT}\nparallel = {SLOTS}\n"
        )
        run = "from foretold.cli import main; main()"
        command = [sys.executable, "-c", run, "serve", "--config", str(settings), "--port", "0", "--json"]
        node = Server("foretold", command, folder, core=None)
        stack.callback(node.stop)
        yield Side(bare, _as_the_node_asks), Side(node, _as_a_caller_asks)


def _as_the_node_asks(operation: str, asked: dict[str, Any]) -> bytes:
    return json.dumps(engine_body(operation, json.dumps(asked).encode(), MANIFEST)).encode()


def _as_a_caller_asks(operation: str, asked: dict[str, Any]) -> bytes:
    streamed = {"model": MANIFEST.name, "stream": True, "stream_options": {"include_usage": True}}
    return json.dumps(asked | streamed).encode()


@dataclass(frozen=True)
class Measured:
    """Pairs of turns by the number of callers, and pairs of seconds to a first token; the engine alone comes first."""

    turns: dict[int, list[tuple[Turn, Turn]]]
    first_s: list[tuple[float, float]]


async def measured(bare: Side, node: Side, *, pairs: int, tokens: int) -> Measured:
    # Numbers that were never asked before; both sides of a pair get the same.
    numbers = itertools.count(random.randrange(10**6, 9 * 10**6))
    for side in (bare, node):
        await side.crowd(numbers, tokens, callers=SLOTS, each=1)
    turns: dict[int, list[tuple[Turn, Turn]]] = {callers: [] for callers in CROWDS}
    for pair in range(1, pairs + 1):
        for callers, into in turns.items():
            into.append(await pair_of(bare, node, numbers, tokens=tokens, callers=callers))
            print(f"pair {pair} of {pairs}, {callers} at once: {_ratio(into[-1]):.3f}", file=sys.stderr, flush=True)
    first = []
    for number in itertools.islice(numbers, FIRST_TOKENS):
        took_s = {side.server.name: await side.first_token(number) for side in ((bare, node), (node, bare))[number % 2]}
        first.append((took_s["bare"], took_s["foretold"]))
    return Measured(turns, first)


async def pair_of(bare: Side, node: Side, numbers: Iterator[int], *, tokens: int, callers: int) -> tuple[Turn, Turn]:
    asked = [[next(numbers) for _ in range(callers)] for _ in range(len(CROWDS[callers]) // 2)]
    left = {"A": iter(asked), "B": iter(asked)}
    sides = {"A": bare, "B": node}
    done = {"A": Turn(0, 0, 0), "B": Turn(0, 0, 0)}
    for name in CROWDS[callers]:
        done[name] += await sides[name].crowd(iter(next(left[name])), tokens, callers=callers, each=1)
    return done["A"], done["B"]


def _ratio(pair: tuple[Turn, Turn]) -> float:
    bare, ours = pair
    return ours.per_s / bare.per_s


def table(turns: dict[int, list[tuple[Turn, Turn]]]) -> str:
    lines = [
        "| at once | engine alone, tokens a second | through Foretold | ratio | lowest to highest | CPU ms a token, alone | through Foretold |",
        "|---:|---:|---:|---:|---|---:|---:|",
    ]
    for callers, pairs in turns.items():
        ratios = [_ratio(pair) for pair in pairs]
        per_s = [statistics.median(pair[at].per_s for pair in pairs) for at in (0, 1)]
        cpu_ms = [statistics.median(pair[at].cpu_s / pair[at].tokens * 1000 for pair in pairs) for at in (0, 1)]
        lines.append(
            f"| {callers} | {per_s[0]:.1f} | {per_s[1]:.1f} | {statistics.median(ratios):.3f}"
            f" | {min(ratios):.3f} to {max(ratios):.3f} | {cpu_ms[0]:.2f} | {cpu_ms[1]:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="how often both take their turn")
    parser.add_argument("--tokens", type=int, default=24, help="of each answer")
    parser.add_argument("--only-print", action="store_true", help="no error where the speed is too low")
    args = parser.parse_args()
    try:
        with sides() as (bare, node):
            got = asyncio.run(measured(bare, node, pairs=args.pairs, tokens=args.tokens))
    except (Wrong, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(got.turns))
    added_ms = statistics.median((ours - alone) * 1000 for alone, ours in got.first_s)
    alone_ms = statistics.median(alone * 1000 for alone, _ in got.first_s)
    missed = "" if added_ms <= FIRST_TOKEN_GOAL_MS else ", missed"
    print(
        f"first token: {alone_ms:.0f} ms alone, {added_ms:+.1f} ms through Foretold (goal {FIRST_TOKEN_GOAL_MS:g}{missed})"
    )
    lowest = min(statistics.median(_ratio(pair) for pair in pairs) for pairs in got.turns.values())
    print(f"lowest ratio: {lowest:.3f}, at least {LEAST}, goal {GOAL}: {verdict(lowest)}")
    return 0 if lowest >= LEAST or args.only_print else 1


def verdict(ratio: float) -> str:
    if ratio < LEAST:
        return "failed"
    return "reached" if ratio >= GOAL else "passed, goal missed"


if __name__ == "__main__":
    sys.exit(main())
