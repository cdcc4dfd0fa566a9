"""`make soak`: a node under mixed traffic for half an hour, and whether anything of it grows.

SOAK_MINUTES, SOAK_RATE (questions a second) and SOAK_SEED change it.  Exit code 0 if all is well, 1 if not, 130 on Ctrl-C.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.program import Node, serving
from tests.fakes.upstream import FakeUpstream
from tests.faults.rounds import RandomUpstream
from tests.soak.process import sample_at_rest
from tests.soak.samples import BYTES_A_REQUEST, FEWEST_REQUESTS, Sample, growths, line_through
from tests.soak.traffic import Traffic

# So long a lap takes where the machine keeps up; its questions are counted, see traffic.py.
LAP_S = 10.0
# Until every bounded cache is full and the interpreter has all the memory it keeps.
WARM_SHARE, WARM_LAPS = 0.2, 4
FEWEST_LAPS = 8

SETTINGS = """
[server]
write_timeout = "2s"
[upstreams.fake]
url = "{url}"
connect_timeout = "1s"
first_byte_timeout = "{first_byte}"
idle_timeout = "500ms"
total_timeout = "2s"
[[tiers]]
store = "memory"
limit = "2 MiB"
[[tiers]]
store = "disk"
limit = "8 MiB"
"""


async def main(minutes: float, rate: float, seed: int) -> int:
    print(f"Soaking for {minutes:g} minutes, about {rate:g} questions a second, seed {seed}.  Ctrl-C stops it.\n")
    print(f"{'min':>5} {'questions':>10} {'memory':>10} {'files':>6} {'tasks':>6} {'readers':>8}   how they ended")
    with tempfile.TemporaryDirectory(prefix="foretold-soak-") as home:
        async with FakeUpstream() as upstream:
            upstream.on("m", RandomUpstream(seed).reply)
            both = tuple(SETTINGS.format(url=upstream.url, first_byte=first) for first in ("500ms", "600ms"))
            async with serving(Path(home), both[0]) as node:
                traffic = Traffic(node, seed, settings=(both[1], both[0]))
                samples, faults = await laps(node, upstream, traffic, seconds=minutes * 60, rate=rate)
    return verdict(samples, faults + traffic.wrongs)


async def laps(
    node: Node, upstream: FakeUpstream, traffic: Traffic, *, seconds: float, rate: float
) -> tuple[list[Sample], list[str]]:
    """A sample after each lap, and what did not add up.  Ends early when something is wrong."""
    samples: list[Sample] = []
    faults: list[str] = []
    began_s = time.monotonic()
    while (time.monotonic() - began_s < seconds or len(samples) < FEWEST_LAPS) and not faults and not traffic.wrongs:
        before = traffic.ended.copy()
        await traffic.lap(max(1, int(LAP_S * rate)), rate=rate)
        upstream.hang_up()
        upstream.calls.clear()
        sample, told = await sample_at_rest(node, traffic.asked)
        samples.append(sample)
        faults += adds_up(told)
        ended = "  ".join(f"{count} {word.rpartition('/')[2]}" for word, count in (traffic.ended - before).items())
        print(
            f"{(time.monotonic() - began_s) / 60:5.1f} {sample.requests:10,} {sample.memory_bytes / 2**20:6.2f} MiB"
            f" {sample.files:6} {sample.tasks:6} {sample.readers:8}   {ended}",
            flush=True,
        )
    return samples, faults


def adds_up(told: dict) -> list[str]:
    found = []
    for name in ("how", "ended"):
        if sum(told[name].values()) != told["received"]:
            found.append(f"{told['received']} were received, and {sum(told[name].values())} have a {name}")
    for tier in told["tiers"]:
        if tier["lookups"] != tier["hits"] + tier["misses"] + tier["errors"]:
            found.append(f"look-ups of {tier['name']} don't add up: {tier}")
        if tier["held_bytes"] > tier["limit_bytes"]:
            found.append(f"{tier['name']} holds more than it may: {tier}")
    if told["corrupt"]:
        found.append(f"{told['corrupt']} records were corrupt")
    return found


def verdict(samples: list[Sample], wrongs: list[str]) -> int:
    """Prints what came of it; the exit code."""
    found = wrongs[:20]
    warm = max(WARM_LAPS, int(len(samples) * WARM_SHARE))
    counted = samples[warm:]
    if len(counted) >= 3:
        memory = line_through([s.requests for s in counted], [s.memory_bytes for s in counted])
        print(
            f"\nAfter {warm} laps to warm up, over {counted[-1].requests - counted[0].requests:,} questions:"
            f" memory {memory.slope:+.2f} ± {memory.error:.2f} bytes a question."
        )
        found += growths(counted)
        if counted[-1].requests - counted[0].requests < FEWEST_REQUESTS:
            print(f"That is too short a run to tell {BYTES_A_REQUEST:g} bytes: {FEWEST_REQUESTS:,} questions would do.")
    for line in found:
        print(f"  ✗ {line}")
    print("Something leaks or is wrong." if found else "Nothing grows and nothing is wrong.")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(
            asyncio.run(
                main(
                    float(os.environ.get("SOAK_MINUTES", "30")),
                    float(os.environ.get("SOAK_RATE", "300")),
                    int(os.environ.get("SOAK_SEED", "1")),
                )
            )
        )
    except KeyboardInterrupt:
        print("\nStopped before the end: no verdict.", file=sys.stderr)
        sys.exit(130)
