"""Whatever lies where a store should be: it is opened, set aside, or refused with a clear word, and never kills."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foretold.errors import StoreError
from foretold.ports import Put
from foretold.stores.disk import DiskStore, opening
from tests.waiting import until

LIMIT_BYTES = 8 * 2**20
NOBODY = 65534
SRC = Path(__file__).parents[4] / "src"

OPENS = """
import os, sys, time
from pathlib import Path
from foretold.stores.disk import DiskStore
from foretold.errors import StoreError
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
try:
    DiskStore(Path(sys.argv[1]), 8 * 2**20, now_ms=lambda: time.time_ns() // 10**6)
except StoreError as e:
    print(e)
"""

DIES = """
import asyncio, os, sys, time
from pathlib import Path
from foretold.stores.disk import DiskStore

async def main():
    store = DiskStore(Path(sys.argv[1]), 8 * 2**20, now_ms=lambda: time.time_ns() // 10**6)
    await store.put("other", b"value", keep_s=60)  # the writer has tended the store, and rests
    if sys.argv[2] == "within":
        os.truncate(Path(sys.argv[1]) / "data.mdb", 8192)
        store.get_now("name")
    os.abort()

asyncio.run(main())
"""


def now_ms() -> int:
    return time.time_ns() // 10**6


def opened(folder: Path, **options: float) -> DiskStore:
    return DiskStore(folder, LIMIT_BYTES, now_ms=now_ms, tell=lambda line: None, **options)


async def filled(folder: Path) -> Path:
    """The data file of a store that holds `name`."""
    store = opened(folder)
    await store.put("name", b"value", keep_s=3600)
    await store.close()
    return folder / "data.mdb"


async def filled_much(folder: Path) -> None:
    """A store of some hundred pages."""
    store = opened(folder)
    await store.put_many([Put(str(number), b"x" * 100, 3600) for number in range(5000)])
    await store.close()


async def begun_anew(folder: Path) -> Path:
    """Opens what is damaged; where it was set aside."""
    store = opened(folder)
    assert store.set_aside is not None
    assert store.get_now("name") is None
    await store.put("new", b"value", keep_s=60)
    assert store.get_now("new") == b"value"
    await store.close()
    return store.set_aside


HARMS = {
    "foreign": lambda file: file.write_bytes(b"not a store" * 1000),
    "zeros": lambda file: file.write_bytes(bytes(2**20)),
    "one byte": lambda file: file.write_bytes(b"x"),
    "another version": lambda file: write_at(file, 20, b"\2"),
    "one root of another version": lambda file: write_at(file, 4096 + 20, b"\2"),
    "another page size": lambda file: write_at(file, 40, b"\0\x20"),
    "cut in its roots": lambda file: os.truncate(file, 5000),
    "cut after its roots": lambda file: os.truncate(file, 8192),
    "cut within its last page": lambda file: os.truncate(file, 2 * 4096 + 2048),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a link": lambda file: (file.rename(file.with_name("elsewhere")), file.symlink_to("elsewhere")),
}


def write_at(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as opened_file:
        opened_file.seek(at)
        opened_file.write(content)


@pytest.mark.parametrize("harm", HARMS)
async def test_a_data_file_that_is_no_whole_store_is_set_aside_and_a_new_one_begun(tmp_path, harm):
    file = await filled(tmp_path / "answers")
    HARMS[harm](file)
    content = file.read_bytes() if file.is_file() else None

    aside = await begun_anew(tmp_path / "answers")

    assert aside.parent == tmp_path
    assert aside.name.startswith("answers.damaged-")
    assert content is None or (aside / "data.mdb").read_bytes() == content


@pytest.mark.parametrize("content", [None, b""])
async def test_a_data_file_that_is_missing_or_empty_is_a_new_store(tmp_path, content):
    file = await filled(tmp_path)
    file.unlink()
    if content is not None:
        file.write_bytes(content)

    store = opened(tmp_path)

    assert store.set_aside is None
    assert store.get_now("name") is None
    await store.put("new", b"value", keep_s=60)
    assert store.get_now("new") == b"value"
    await store.close()


async def test_a_lock_file_of_rubbish_is_made_anew(tmp_path):
    await filled(tmp_path)
    (tmp_path / "lock.mdb").write_bytes(os.urandom(50_000))

    store = opened(tmp_path)

    assert store.get_now("name") == b"value"
    await store.close()


async def test_a_folder_in_place_of_the_lock_file_sets_the_store_aside(tmp_path):
    await filled(tmp_path / "answers")
    (tmp_path / "answers" / "lock.mdb").unlink()
    (tmp_path / "answers" / "lock.mdb").mkdir()

    await begun_anew(tmp_path / "answers")


def test_a_file_in_place_of_the_folder_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreError, match="file"):
        opened(tmp_path / "file")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can reach, too."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("unusable", ["data.mdb", "lock.mdb", "."])
async def test_what_this_user_may_not_use_is_a_clear_error_and_stays_as_it_is(shared_folder, unusable):
    assert os.geteuid() == 0, "this test acts as another user, so it must run as root"
    folder = shared_folder / "answers"
    await filled(folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.chown(folder / unusable, 0, 0)
    folder.chmod(0o555 if unusable == "." else 0o700)

    ran = subprocess.run(
        [sys.executable, "-c", OPENS, str(folder)],
        env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert f"the folder {folder} for answers can't be used: Permission denied" in ran.stdout
    assert list(shared_folder.iterdir()) == [folder]


async def test_no_page_that_lmdb_may_name_lies_beyond_the_end_of_the_file(tmp_path):
    file = await filled(tmp_path)

    assert file.stat().st_size == LIMIT_BYTES
    assert file.stat().st_blocks * 512 < 2**20


async def test_another_limit_keeps_what_is_held(tmp_path):
    await filled(tmp_path)

    for limit in (64 * 2**20, 4 * 2**20):
        store = DiskStore(tmp_path, limit, now_ms=now_ms)
        assert store.set_aside is None
        assert store.get_now("name") == b"value"
        await store.close()


async def test_a_store_too_large_to_be_walked_at_open_is_walked_before_anything_is_written(tmp_path, monkeypatch):
    await filled_much(tmp_path / "answers")
    monkeypatch.setattr(opening, "WALK_S", -1)
    left = opening.open_store(tmp_path / "answers", LIMIT_BYTES)
    was_unchecked = left.unchecked is not None
    left.close()

    store = opened(tmp_path / "answers")
    await store.put("new", b"value", keep_s=60)

    assert was_unchecked
    assert store._writer.opened.unchecked is None
    assert store.set_aside is None
    assert store.get_now("4999") == b"x" * 100
    await store.close()


async def test_damage_found_by_the_later_walk_sets_the_store_aside_while_it_serves(tmp_path, monkeypatch):
    folder = tmp_path / "answers"
    await filled_much(folder)
    content = bytearray((folder / "data.mdb").read_bytes())
    leaves = [at for at in range(8192, len(content), 4096) if content[at + 10] == 2]
    for at in leaves:
        content[at + 12 : at + 16] = b"\xff\xff\xff\xff"
    (folder / "data.mdb").write_bytes(content)
    monkeypatch.setattr(opening, "WALK_S", -1)

    store = opened(folder)
    await store.put("new", b"value", keep_s=60)

    assert store.set_aside is not None
    assert store.get_now("new") == b"value"
    await store.close()


@pytest.mark.parametrize(("where", "is_set_aside"), [("within", True), ("elsewhere", False)])
async def test_a_store_that_a_process_died_in_is_set_aside_at_the_next_start(tmp_path, where, is_set_aside):
    """Though nothing is wrong with its file any more, as far as can be seen."""
    file = await filled(tmp_path / "answers")
    shutil.copy(file, tmp_path / "copy")

    ran = subprocess.run(
        [sys.executable, "-c", DIES, str(tmp_path / "answers"), where],
        env={"PYTHONPATH": str(SRC)}, check=False, capture_output=True,
    )  # fmt: skip
    shutil.copy(tmp_path / "copy", file)
    store = opened(tmp_path / "answers")

    assert ran.returncode < 0
    assert (store.set_aside is not None) is is_set_aside
    assert (store.get_now("name") is None) is is_set_aside
    await store.close()


@pytest.mark.parametrize(("note", "is_set_aside"), [("", False), ("Fatal Python error: ", True)])
async def test_a_note_that_breaks_off_counts_as_a_death_within_and_an_empty_one_as_a_kill(tmp_path, note, is_set_aside):
    await filled(tmp_path / "answers")
    (tmp_path / "answers" / f"writer-{'0' * 16}").write_text(note)

    store = opened(tmp_path / "answers")

    assert (store.set_aside is not None) is is_set_aside
    assert not (tmp_path / "answers" / f"writer-{'0' * 16}").exists()
    await store.close()


async def test_a_store_whose_folder_was_moved_is_begun_anew_where_it_was(tmp_path):
    store = opened(tmp_path / "answers", tend_s=0.01)
    await store.put("name", b"value", keep_s=60)

    (tmp_path / "answers").rename(tmp_path / "elsewhere")
    await until(lambda: (tmp_path / "answers" / "data.mdb").exists() and store._writer.opened is not None)
    await store.put("new", b"x" * 100_000, keep_s=60)

    assert store.get_now("name") is None
    assert store.get_now("new") == b"x" * 100_000
    assert store.set_aside is None
    await store.close()


async def test_pages_damaged_while_the_store_is_open_set_it_aside_while_it_serves(tmp_path):
    folder = tmp_path / "answers"
    store = opened(folder)
    await store.put("name", b"value", keep_s=60)
    used = len((folder / "data.mdb").read_bytes().rstrip(b"\0"))
    write_at(folder / "data.mdb", 8192, bytes(used - 8192))

    with pytest.raises(StoreError):
        store.get_now("name")
    await until(lambda: store.set_aside is not None and store._writer.opened is not None)
    await store.put("new", b"value", keep_s=60)

    assert store.get_now("new") == b"value"
    await store.close()
