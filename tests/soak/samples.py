"""What a process holds at rest, lap by lap, and whether it grows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# What a request may leave behind.  Bounded caches are full before the first lap counts, so anything lasting is a leak.
BYTES_A_REQUEST = 8.0
# The interpreter takes memory by 1 MiB at a time: growth below two such steps can't be told from none.
TWO_STEPS_BYTES = 2 * 2**20
FEWEST_REQUESTS = int(TWO_STEPS_BYTES / BYTES_A_REQUEST)
# A lap may leave one more connection or task than the last and the next one less; two more over all laps is growth.
GROWN_BY = 2.0


@dataclass(frozen=True)
class Sample:
    """At the end of a lap: `memory_bytes` is anonymous memory, as the pages of the disk tier's file come and go."""

    requests: int
    memory_bytes: int
    files: int
    tasks: int
    readers: int


@dataclass(frozen=True)
class Line:
    """A straight line through points: its slope, and how sure that is (one standard error)."""

    slope: float
    error: float


def line_through(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """By least squares; three points at least, not all at one x."""
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    off = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return Line(slope, (off / (len(xs) - 2) / spread) ** 0.5)


def growths(samples: Sequence[Sample]) -> list[str]:
    """What grew over these laps, in words; nothing if all is well."""
    requests = [float(sample.requests) for sample in samples]
    memory = line_through(requests, [sample.memory_bytes for sample in samples])
    found = []
    if memory.slope > BYTES_A_REQUEST and memory.slope * (requests[-1] - requests[0]) > TWO_STEPS_BYTES:
        found.append(f"memory grows by {memory.slope:.1f} bytes a request, and may by {BYTES_A_REQUEST:g}")
    for name in ("files", "tasks", "readers"):
        line = line_through(requests, [getattr(sample, name) for sample in samples])
        by = line.slope * (requests[-1] - requests[0])
        if by >= GROWN_BY:
            found.append(f"{name} grew by {by:.1f} over {len(samples)} laps")
    return found
