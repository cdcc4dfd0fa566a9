from __future__ import annotations

import resource
from pathlib import Path

import pytest

from foretold.config import load
from foretold.doctor import limits as module
from foretold.doctor.limits import cgroup_limit, limits, memory_needed
from tests.worlds import text, verdict, world_of

UPSTREAM = '[upstreams.a]\nurl = "http://127.0.0.1:9/v1"\n'
PLENTY = "MemTotal: 99999999 kB\nMemAvailable:   99999999 kB\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of its own: what /proc and /sys say, and the limits of a process."""
    root = tmp_path / "root"
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(PLENTY)
    (root / "proc" / "self" / "cgroup").write_text("0::/a.slice/b.service\n")
    (root / "sys" / "fs" / "cgroup" / "a.slice" / "b.service").mkdir(parents=True)
    allow(monkeypatch)
    return root


def allow(monkeypatch, *, files: int = 100_000, file_bytes: int = resource.RLIM_INFINITY) -> None:
    given = {resource.RLIMIT_NOFILE: (files, files), resource.RLIMIT_FSIZE: (file_bytes, file_bytes)}
    monkeypatch.setattr(module.resource, "getrlimit", given.__getitem__)


def examined(tmp_path: Path, root: Path, settings: str = UPSTREAM, *, is_running: bool = False):
    return list(limits(world_of(tmp_path, settings, root=root), is_running=is_running))


def test_a_machine_that_allows_all_is_well(tmp_path, machine):
    assert verdict(examined(tmp_path, machine)) == "ok"


def test_too_few_open_files_are_a_warning_with_the_number_that_is_enough(tmp_path, machine, monkeypatch):
    allow(monkeypatch, files=1024)

    notes = examined(tmp_path, machine)

    assert verdict(notes) == "warning"
    assert f"ulimit -n {4096 + 256 + 64}" in text(notes)


def test_the_connections_that_it_names_instead_are_few_enough(tmp_path, machine, monkeypatch):
    allow(monkeypatch, files=1024)
    notes = examined(tmp_path, machine)
    named = text(notes).rpartition("server.connections to ")[2]

    again = examined(tmp_path, machine, f"{UPSTREAM}[server]\nconnections = {named}\n")

    assert verdict(again) == "ok"


def test_a_limit_of_files_below_the_disk_tier_s_is_a_fault(tmp_path, machine, monkeypatch):
    allow(monkeypatch, file_bytes=2**20)

    assert verdict(examined(tmp_path, machine)) == "fault"


def test_a_cgroup_that_allows_less_memory_than_is_needed_is_a_warning(tmp_path, machine):
    (machine / "sys/fs/cgroup/a.slice/memory.max").write_text(f"{256 * 2**20}\n")

    notes = examined(tmp_path, machine)

    assert verdict(notes) == "warning"
    assert "256 MiB" in text(notes)


def test_too_little_available_memory_is_a_warning_unless_our_node_has_taken_it(tmp_path, machine):
    (machine / "proc/meminfo").write_text("MemAvailable:   100000 kB\n")

    assert verdict(examined(tmp_path, machine)) == "warning"
    assert verdict(examined(tmp_path, machine, is_running=True)) == "ok"


def test_the_smallest_limit_above_a_process_counts(machine):
    (machine / "sys/fs/cgroup/a.slice/memory.max").write_text("1000\n")
    (machine / "sys/fs/cgroup/a.slice/b.service/memory.max").write_text("max\n")
    (machine / "sys/fs/cgroup/memory.max").write_text("2000\n")

    assert cgroup_limit(machine) == 1000


def test_the_older_cgroups_count_too_and_their_unlimited_is_none(machine):
    (machine / "proc/self/cgroup").write_text("5:cpu,memory:/docker/x\n1:name=systemd:/\n")
    folder = machine / "sys/fs/cgroup/memory"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    unlimited = cgroup_limit(machine)
    (folder / "memory.limit_in_bytes").write_text("5000\n")

    assert (unlimited, cgroup_limit(machine)) == (None, 5000)


def test_the_memory_needed_is_that_of_tier_bodies_and_models():
    with_model, without = memory_needed(load(""), Path())[0], memory_needed(load(UPSTREAM), Path())[0]

    assert without == (256 + 256 + 100) * 2**20
    assert with_model - without == 45_000_000 + 23_400 * 2048 * 2 + 98_362_432


def test_each_worker_needs_memory_of_its_own_beside_the_limits_that_all_share():
    one, two = (memory_needed(load(f"{UPSTREAM}\n[server]\nworkers = {count}"), Path())[0] for count in (1, 2))

    assert two - one == module._NODE_ITSELF


def test_a_model_that_never_has_room_is_a_fault_with_both_numbers(tmp_path, machine):
    notes = examined(tmp_path, machine, '[pool]\nmemory = "100 MB"\n')

    assert verdict(notes) == "fault"
    assert "needs 239 MB of memory" in text(notes)
    assert "leaves it 100 MB" in text(notes)


def test_models_need_no_more_than_the_pool_gives_them(tmp_path, machine):
    both = "[models.a]\n[models.b]\n"

    alone, _ = memory_needed(load('[pool]\nmemory = "230 MB"\n' + both), tmp_path, machine)
    together, _ = memory_needed(load(both), tmp_path, machine)

    assert together - alone > 100_000_000
