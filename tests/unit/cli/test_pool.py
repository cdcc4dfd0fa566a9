"""A line for each model, as `foretold models ps` shows it."""

from __future__ import annotations

import pytest

from foretold.cli.pool import line_of

LOADED = {
    "name": "small",
    "revision": "4bf5122f344554c5",
    "state": "loaded",
    "memory_bytes": 225_000_000,
    "asleep_bytes": 36_000_000,
    "parallel": 2,
    "answering": 0,
    "waiting": 0,
    "pinned": False,
    "idle_s": 12.3,
    "expires_in_s": 588.0,
}


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "small\t4bf5122f3445\tloaded\t225 MB\tidle for 12 s\tgoes in 588 s"),
        ({"state": "asleep"}, "small\t4bf5122f3445\tasleep\t225 MB\tidle for 12 s\ttakes 36 MB now\tgoes in 588 s"),
        (
            {"answering": 2, "waiting": 3, "idle_s": None, "expires_in_s": None, "pinned": True},
            "small\t4bf5122f3445\tloaded\t225 MB\t2 of 2 answering, 3 waiting\tpinned",
        ),
        (
            {"state": "unloaded", "idle_s": None, "expires_in_s": None},
            "small\t4bf5122f3445\tunloaded\t225 MB",
        ),
    ],
)
def test_a_model_is_one_line_of_what_it_is_and_does(changed, line):
    assert line_of(LOADED | changed) == line
