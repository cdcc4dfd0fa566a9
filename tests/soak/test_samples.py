"""The soak's verdict: a leak is seen through noise, and noise is no leak."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.soak.samples import Sample, growths, line_through


def laps(*, bytes_a_request: float = 0, files: float = 0, tasks: float = 0, readers: float = 0) -> list[Sample]:
    chance = random.Random(3)
    return [
        Sample(
            requests=lap * 4000,
            memory_bytes=int(90e6 + bytes_a_request * lap * 4000 + chance.gauss(0, 60_000)),
            files=20 + int(files * lap) + chance.randrange(2),
            tasks=5 + int(tasks * lap),
            readers=1 + int(readers * lap),
        )
        for lap in range(30)
    ]


def test_a_line_is_fitted_exactly():
    line = line_through([1, 2, 3, 4], [5, 7, 9, 11])

    assert (line.slope, line.error) == (2, 0)


def test_a_process_that_holds_what_it_held_does_not_grow():
    assert growths(laps()) == []


def test_a_step_of_the_allocator_is_no_leak():
    still = laps()
    stepped = [*still[:25], *(replace(lap, memory_bytes=lap.memory_bytes + 2**20) for lap in still[25:])]

    assert growths(stepped) == []


@pytest.mark.parametrize(
    ("leak", "told"),
    [
        ({"bytes_a_request": 20}, "memory grows by"),
        ({"files": 0.2}, "files grew by"),
        ({"tasks": 0.1}, "tasks grew by"),
        ({"readers": 0.1}, "readers grew by"),
    ],
    ids=str,
)
def test_what_grows_is_told(leak, told):
    (grown,) = growths(laps(**leak))

    assert grown.startswith(told)
