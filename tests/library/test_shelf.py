"""This machine's folder of models: within its limit, and nothing goes that is in use."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foretold.errors import LibraryError
from foretold.models.library.access import Access
from foretold.models.library.address import address_of
from foretold.models.library.bring import bring
from foretold.models.library.kept import Kept
from foretold.models.library.objects import Store
from foretold.models.library.shelf import Shelf, Using
from foretold.models.library.sweeping import forget_here, sweep_here
from foretold.models.library.trust import Trust
from tests.library.gguf_file import model_file
from tests.library.worlds import MB, Told, pulled, pushed
from tests.waiting import until


def blob(folder: Path, content: bytes, *, used_s: float = 0.0) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"sha256-{hashlib.sha256(content).hexdigest()}"
    path.write_bytes(content)
    os.utime(path, (used_s, used_s))
    return path


def left_over(folder: Path, size_bytes: int) -> Path:
    """What a killed run left of a blob."""
    folder.mkdir(exist_ok=True)
    path = folder / f"sha256-{'e' * 64}.coming"
    path.write_bytes(bytes(size_bytes))
    return path


def test_room_is_made_by_what_was_used_longest_ago(folder):
    oldest, middle, newest = (blob(folder, bytes([at]) * 100, used_s=at) for at in (1, 2, 3))

    removed = Shelf(folder, limit_bytes=300).make_room(150, keep=())

    assert removed == [oldest, middle]
    assert newest.exists()


def test_what_is_in_use_never_goes_even_when_it_is_the_oldest(folder):
    oldest, newer = blob(folder, b"a" * 100, used_s=1), blob(folder, b"b" * 100, used_s=2)
    using = Using()
    using.take(oldest)
    os.utime(oldest, (1, 1))

    removed = Shelf(folder, limit_bytes=200).make_room(100, keep=())

    assert removed == [newer]
    assert oldest.exists()
    using.close()


def test_what_another_process_uses_never_goes(folder):
    used = blob(folder, b"a" * 100)
    program = "import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_SH)\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(used)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        shelf = Shelf(folder, limit_bytes=50)

        assert not shelf.remove(used)
        with pytest.raises(LibraryError):
            shelf.make_room(10, keep=())
        assert used.exists()

        other.kill()
        other.wait()
        assert shelf.remove(used)


def test_where_too_little_would_be_left_nothing_is_removed_and_both_numbers_are_told(folder):
    kept, other = blob(folder, b"a" * 3 * MB), blob(folder, b"b" * MB)

    with pytest.raises(LibraryError, match=r"4\.0 MB more are needed.*3\.0 MB are in use.*cache_limit is 5\.0 MB"):
        Shelf(folder, limit_bytes=5 * MB).make_room(4 * MB, keep={kept.name})

    assert other.exists()


def test_what_a_killed_run_left_goes_before_any_whole_file(folder):
    whole, left = blob(folder, b"a" * 100), left_over(folder, 100)

    Shelf(folder, limit_bytes=200).make_room(100, keep=())

    assert whole.exists()
    assert not left.exists()


async def test_what_is_just_being_fetched_counts_and_stays(folder):
    left = left_over(folder, 100)
    shelf = Shelf(folder, limit_bytes=150)

    async with shelf.bringing(left.with_suffix(""), tell=Told()):
        with pytest.raises(LibraryError):
            shelf.make_room(100, keep=())
    assert left.exists()


async def test_one_at_a_time_brings_a_file_and_the_others_are_told_that_they_wait(folder):
    shelf, one = Shelf(folder, limit_bytes=100), folder / f"sha256-{'a' * 64}"
    told, order = Told(), []

    async def second() -> None:
        async with shelf.bringing(one, tell=told):
            order.append("second")

    async with shelf.bringing(one, tell=Told()):
        waiting = asyncio.create_task(second())
        await until(lambda: bool(told.steps))
        order.append("first")
    await waiting

    assert order == ["first", "second"]


def test_a_file_removed_and_made_anew_is_not_taken_for_the_old_one(folder):
    used, using = blob(folder, b"a"), Using()
    using.take(used)
    using.drop(used)
    used.unlink()

    assert not using.take(used)


def test_a_folder_that_cannot_be_made_is_told_with_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(LibraryError, match="FORETOLD_CACHE names another"):
        Shelf(tmp_path / "file" / "models", limit_bytes=1)


# --- what no model names


async def two_models(tmp_path: Path, folder: Path) -> tuple[Store, list[str]]:
    (tmp_path / "library").mkdir()
    there = Store.of(address_of((tmp_path / "library").as_uri()), Access())
    revisions = []
    for seed in (1, 2):
        told = await pushed(there, model_file(tmp_path / f"{seed}.gguf", 1000, seed=seed), name=f"m{seed}")
        await pulled(there, folder, told.revision, name=f"m{seed}")
        revisions.append(told.revision)
    return there, revisions


async def test_gc_removes_what_no_manifest_names_and_what_was_left_half(tmp_path, folder):
    await two_models(tmp_path, folder)
    forgotten, left = blob(folder, b"nobody's"), left_over(folder, 10)
    (folder / ".import-x").mkdir()
    shelf = Shelf(folder, limit_bytes=MB)

    looked = sweep_here(shelf, wanted=(), only_look=True)
    assert forgotten.exists()
    freed = sweep_here(shelf, wanted=(), only_look=False)

    assert looked == freed
    assert {name for name, _ in freed.removed} == {forgotten.name, left.name}
    assert not forgotten.exists()
    assert not left.exists()
    assert not (folder / ".import-x").exists()
    assert len(shelf.blobs()) == 2


async def test_gc_leaves_what_is_wanted_in_use_or_on_its_way(tmp_path, folder):
    wanted, used, coming = blob(folder, b"wanted"), blob(folder, b"used"), left_over(folder, 10)
    shelf, using = Shelf(folder, limit_bytes=MB), Using()
    using.take(used)

    async with shelf.bringing(coming.with_suffix(""), tell=Told()):
        freed = sweep_here(shelf, wanted=(wanted.name,), only_look=False)

    assert freed.removed == ()
    using.close()


async def test_a_model_is_removed_with_its_files_but_for_those_of_others(tmp_path, folder):
    there, _ = await two_models(tmp_path, folder)
    shared = await pushed(there, tmp_path / "1.gguf", name="also1")
    await pulled(there, folder, shared.revision, name="also1")
    shelf = Shelf(folder, limit_bytes=MB)

    forget_here(shelf, "m1", wanted=())
    assert len(shelf.blobs()) == 2
    forget_here(shelf, "also1", wanted=())

    assert len(shelf.blobs()) == 1
    assert [origin.name for origin in Kept(folder).origins()] == ["m2"]


async def test_a_split_model_in_use_keeps_the_names_its_engine_looks_for(tmp_path, folder):
    (tmp_path / "library").mkdir()
    there, using = Store.of(address_of((tmp_path / "library").as_uri()), Access()), Using()
    for at in range(2):
        model_file(tmp_path / f"big-{at + 1:05d}-of-00002.gguf", 1000, seed=at, split__no=at, split__count=2)
    told = await pushed(there, tmp_path / "big-00001-of-00002.gguf", name="big")
    brought = await bring(
        Shelf(folder, limit_bytes=MB), there, "big", trust=Trust(told.revision), using=using, tell=Told()
    )

    forget_here(Shelf(folder, limit_bytes=MB), "big", wanted=())
    assert brought.weights.is_file()
    using.close()
    sweep_here(Shelf(folder, limit_bytes=MB), wanted=(), only_look=False)

    assert not brought.weights.parent.exists()
    assert Shelf(folder, limit_bytes=MB).blobs() == []
