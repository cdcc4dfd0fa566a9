from __future__ import annotations

from pathlib import Path

import pytest

from foretold.config import load
from foretold.models.engine import threads_for
from foretold.models.memory import memory_bytes, pool_bytes

GIB = 2**30


@pytest.fixture
def machine(tmp_path) -> Path:
    """One with 8 GiB, in whose container 2 GiB are allowed."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal:       8388608 kB\nMemFree: 1 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
    (tmp_path / "sys/fs/cgroup/box").mkdir(parents=True)
    return tmp_path


def test_models_may_take_three_quarters_of_what_the_machine_has(machine):
    assert memory_bytes(machine) == 8 * GIB
    assert pool_bytes(load(""), machine) == 6 * GIB


def test_where_a_container_has_less_they_may_take_three_quarters_of_that(machine):
    (machine / "sys/fs/cgroup/box/memory.max").write_text(f"{2 * GIB}\n")

    assert pool_bytes(load(""), machine) == 3 * GIB // 2


def test_what_the_settings_say_counts_as_it_is(machine):
    assert pool_bytes(load('[pool]\nmemory = "20 GiB"'), machine) == 20 * GIB


def test_where_nothing_tells_how_much_there_is_nothing_is_refused(tmp_path):
    assert memory_bytes(tmp_path) is None
    assert pool_bytes(load(""), tmp_path) >= 2**50


@pytest.mark.parametrize(
    ("residents", "cores", "threads"), [(1, 8, 7), (2, 8, 3), (7, 8, 1), (20, 8, 1), (1, 2, 1), (1, 1, 1)]
)
def test_models_share_all_cores_but_one(residents, cores, threads):
    assert threads_for(residents, cores=cores) == threads
