"""A store is looked at by plain reads: a whole one, a damaged one, one that is written meanwhile."""

from __future__ import annotations

import random
import shutil
import threading

import lmdb
import pytest

from foretold.doctor.store import look, store
from tests.worlds import begun, text, verdict, world_of

SMALL = '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n[[tiers]]\nstore = "disk"\nlimit = "32 MiB"\n'


def filled(tmp_path, count=3000):
    """The folder of a store of the shape that the disk tier has: one tree, small values and large."""
    folder = begun(tmp_path).answers
    folder.mkdir()
    with lmdb.open(str(folder), map_size=2**28) as env:
        for at in range(0, count, 100):
            with env.begin(write=True) as txn:
                for n in range(at, at + 100):
                    txn.put(b"%064d" % n, bytes(n * 7 % 9000))
    return folder


def test_a_whole_store_is_well_and_all_its_pages_are_read(tmp_path):
    folder = filled(tmp_path)

    notes = list(store(world_of(tmp_path)))
    looked = look(folder / "data.mdb")

    assert verdict(notes) == "ok"
    assert looked is not None
    assert looked.is_all
    assert looked.pages > 400


def test_looking_changes_no_byte_and_takes_no_lock(tmp_path):
    folder = filled(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    list(store(world_of(tmp_path)))

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["empty", "head", "version", "cut in half", "zeroed in the middle", "text"])
def test_a_damaged_store_is_a_fault(tmp_path, damage):
    file = filled(tmp_path) / "data.mdb"
    held = bytearray(file.read_bytes())
    match damage:
        case "empty":
            held = bytearray()
        case "head":
            held[16:20] = b"\0\0\0\0"
        case "version":
            held[20:24] = b"\7\0\0\0"
        case "cut in half":
            del held[len(held) // 2 :]
        case "zeroed in the middle":
            middle = len(held) // 8192 * 4096
            held[middle : middle + 2**20] = bytes(2**20)
        case "text":
            held = bytearray(b"not a store\n" * 5000)
    file.write_bytes(held)

    notes = list(store(world_of(tmp_path)))

    assert verdict(notes) == "fault"
    assert "damaged" in text(notes)


def test_any_garbled_page_is_said_or_read_over_and_never_ends_the_program(tmp_path):
    file = filled(tmp_path, count=300) / "data.mdb"
    held = file.read_bytes()
    said = 0
    chance = random.Random(1)
    for page in range(2, len(held) // 4096):
        garbled = bytearray(held)
        at = page * 4096 + chance.choice([0, 10, 12, 16, 40])
        garbled[at : at + 64] = chance.choice([b"\xff" * 64, chance.randbytes(64)])
        file.write_bytes(garbled)
        said += verdict(list(store(world_of(tmp_path)))) == "fault"

    assert said > 100


def test_a_store_that_is_written_meanwhile_is_never_called_damaged(tmp_path):
    folder = filled(tmp_path)
    stop = threading.Event()

    def write() -> None:
        with lmdb.open(str(folder), map_size=2**28) as env:
            n = 0
            while not stop.is_set():
                with env.begin(write=True) as txn:
                    for _ in range(20):
                        n = (n * 1103515245 + 12345) % 3000
                        txn.put(b"%064d" % n, bytes(n * 7 % 9000))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        verdicts = {verdict(list(store(world_of(tmp_path)))) for _ in range(15)}
    finally:
        stop.set()
        writer.join()

    assert verdicts <= {"ok", "warning"}


def test_a_store_above_its_limit_is_a_warning(tmp_path):
    folder = filled(tmp_path)
    with (folder / "filler").open("wb") as file:
        file.write(b"x" * 40 * 2**20)

    notes = list(store(world_of(tmp_path, SMALL)))

    assert verdict(notes) == "warning"
    assert "32 MiB" in text(notes)


def test_a_store_that_was_set_aside_is_told_with_its_size(tmp_path):
    folder = filled(tmp_path)
    shutil.move(folder, folder.with_name("answers.damaged-1"))

    notes = list(store(world_of(tmp_path)))

    assert verdict(notes) == "warning"
    assert f"rm -r {folder}.damaged-1" in text(notes)


def test_a_node_that_keeps_nothing_on_disk_has_no_store(tmp_path):
    world = world_of(tmp_path, '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n')

    assert verdict(list(store(world))) == "skipped"
