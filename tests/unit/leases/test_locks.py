from __future__ import annotations

import subprocess
import sys

from foretold.leases.locks import Locks, Slot, place_of


def key(first: str) -> str:
    return first.ljust(64, "0")


def test_whoever_is_refused_learns_who_has_the_place(tmp_path):
    one, other = Locks(tmp_path, 3), Locks(tmp_path, 900)

    assert one.take(place_of(key("a"))) is None
    assert other.take(place_of(key("a"))) == 3
    assert other.take(place_of(key("b"))) is None
    assert one.take(place_of(key("b"))) == 900


def test_neighbouring_places_are_told_apart_whatever_the_slots(tmp_path):
    one, other = Locks(tmp_path, 999), Locks(tmp_path, 0)
    places = [place_of(key(f"{n:012x}")) for n in (7, 8, 9, 7 + 16)]
    for place in places:
        assert one.take(place) is None

    assert [other.take(place) for place in places] == [999] * 4


def test_a_released_place_is_free(tmp_path):
    one, other = Locks(tmp_path, 0), Locks(tmp_path, 1)
    one.take(0)
    one.release(0)

    assert other.take(0) is None


def test_the_largest_key_has_a_place(tmp_path):
    assert Locks(tmp_path, 0).take(place_of("f" * 64)) is None


def test_the_places_of_a_process_are_free_when_it_has_died(tmp_path):
    program = "import sys; from pathlib import Path; from foretold.leases.locks import Locks\nlocks = Locks(Path(sys.argv[1]), 5)\nprint(locks.take(0), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        ours = Locks(tmp_path, 0)
        while_alive = ours.take(0)
        holder.kill()
        holder.wait()

        assert while_alive == 5
        assert ours.take(0) is None


def test_each_has_the_lowest_slot_that_is_free(tmp_path):
    slots = [Slot(tmp_path) for _ in range(3)]
    slots[1].close()

    assert [slot.number for slot in slots] == [0, 1, 2]
    assert Slot(tmp_path).number == 1


def test_a_slot_is_free_when_nobody_has_it(tmp_path):
    slot, other = Slot(tmp_path), Slot(tmp_path)

    assert not slot.is_free(other.number)
    assert slot.is_free(2)
