"""From what each round measured to the table that is shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cases import Case


@dataclass(frozen=True)
class Measured:
    """One case in one round."""

    cpu_us: float
    requests: int
    per_s: float
    p50_us: float
    p99_us: float
    upstream_calls: int


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread_percent(values: Sequence[float]) -> float:
    """Half the range over the median."""
    return (max(values) - min(values)) / 2 / statistics.median(values) * 100


def ratio(of: Sequence[Measured], beside: Sequence[Measured]) -> float:
    """The median over the rounds of CPU time beside CPU time, each within its round."""
    return statistics.median(a.cpu_us / b.cpu_us for a, b in zip(of, beside, strict=True))


def table(cases: Sequence[Case], rounds: dict[str, list[Measured]]) -> str:
    """Markdown, one line a case."""
    lines = [
        "| case | connections | CPU µs a request | ± % | times its base | requests a second | p50 µs | p99 µs |",
        "|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for case in cases:
        got = rounds[case.name]
        cpu = [m.cpu_us for m in got]
        base = "base" if case.beside == case.name else f"{ratio(got, rounds[case.beside]):.2f} × {case.beside}"
        lines.append(
            f"| {case.name} | {case.connections} | {median(cpu):.1f} | {spread_percent(cpu):.0f} | {base} "
            f"| {median([m.per_s for m in got]):,.0f} | {median([m.p50_us for m in got]):,.0f} "
            f"| {median([m.p99_us for m in got]):,.0f} |"
        )
    return "\n".join(lines)
