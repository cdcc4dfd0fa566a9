from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foretold.doctor import models
from foretold.doctor.models import engine, missing_features, model_files
from foretold.models.manifest import SMOLLM2, File
from tests.worlds import text, verdict, world_of

UPSTREAM = '[upstreams.a]\nurl = "http://127.0.0.1:9/v1"\n'
WEIGHTS = b"weights" * 1000


@pytest.fixture
def small(monkeypatch) -> File:
    """Stands for the bundled model, whose file is 98 MB."""
    import dataclasses
    import hashlib

    file = File("small.gguf", hashlib.sha256(WEIGHTS).hexdigest(), len(WEIGHTS))
    monkeypatch.setattr(models, "SMOLLM2", dataclasses.replace(SMOLLM2, files=(file,)))
    return file


def test_weights_that_are_whole_are_well(tmp_path, small):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / small.blob).write_bytes(WEIGHTS)

    assert verdict(list(model_files(world_of(tmp_path)))) == "ok"


@pytest.mark.parametrize("held", [WEIGHTS[:-1], b"w" + WEIGHTS[:-1], b""], ids=["cut", "changed", "empty"])
def test_weights_that_are_damaged_are_a_fault_with_the_command_that_brings_them(tmp_path, small, held):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / small.blob).write_bytes(held)

    notes = list(model_files(world_of(tmp_path)))

    assert verdict(notes) == "fault"
    assert "foretold serve" in text(notes)


def test_weights_that_are_not_here_yet_are_a_warning_and_nothing_is_fetched(tmp_path):
    notes = list(model_files(world_of(tmp_path)))

    assert verdict(notes) == "warning"
    assert "fetches 93 MB" in text(notes)
    assert not (tmp_path / "models").exists()


def test_without_room_for_the_weights_fetching_them_is_a_fault(tmp_path, monkeypatch):
    usage = models.shutil.disk_usage(tmp_path)._replace(free=10**6)
    monkeypatch.setattr(models.shutil, "disk_usage", lambda path: usage)

    assert verdict(list(model_files(world_of(tmp_path)))) == "fault"


def test_a_node_with_upstreams_only_needs_no_model_and_no_engine(tmp_path):
    world = world_of(tmp_path, UPSTREAM)

    assert verdict(list(model_files(world))) == "skipped"
    assert verdict(list(engine(world))) == "skipped"


def test_the_hash_of_a_large_file_says_how_far_it_is_and_that_of_a_small_one_nothing(tmp_path, small, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / small.blob).write_bytes(WEIGHTS)
    quick, slow = world_of(tmp_path), world_of(tmp_path)

    list(model_files(quick))
    monkeypatch.setattr(models, "_QUIET_S", 0.0)
    list(model_files(slow))

    assert quick.tell.steps == []
    assert len(slow.tell.steps) == 1


def test_the_engine_is_imported_by_another_process_than_this(tmp_path):
    program = (
        "import sys, pathlib; from foretold.doctor.models import engine; from tests.worlds import *;"
        f"notes = list(engine(world_of(pathlib.Path({str(tmp_path)!r})))); print(verdict(notes), 'xllamacpp' in sys.modules)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )

    assert ended.stdout.split() == ["ok", "False"], ended.stderr


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import no_such_engine", "No module named 'no_such_engine'"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "lacks an instruction"),
        ("import sys; sys.exit(3)", "exit 3"),
    ],
)
def test_an_engine_that_can_t_be_imported_is_a_fault_that_says_why(tmp_path, monkeypatch, program, says):
    monkeypatch.setattr(models, "_PROGRAM", program)

    notes = list(engine(world_of(tmp_path)))

    assert verdict(notes) == "fault"
    assert says in text(notes)


def test_features_that_the_engine_was_built_with_and_the_cpu_lacks_are_named(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor: 0\nflags\t\t: fpu pni avx f16c\n")

    lacking = missing_features("CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | FMA = 1 | AVX512 = 0 | OPENMP = 1 | ", tmp_path)

    assert lacking == ["AVX2", "FMA"]


def test_a_machine_that_names_no_flags_lacks_nothing_that_we_know_of(tmp_path):
    assert missing_features("CPU : NEON = 1 | AVX2 = 1", tmp_path) == []


def test_a_folder_for_temporary_files_with_too_long_a_name_is_a_fault(tmp_path):
    long = tmp_path / ("n" * 100)
    long.mkdir()

    notes = list(engine(world_of(tmp_path, environ={"TMPDIR": str(long)})))

    assert verdict(notes) == "fault"
    assert "103 are the most" in text(notes)
