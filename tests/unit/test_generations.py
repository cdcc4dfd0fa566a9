from __future__ import annotations

import json

import pytest

from foretold.contract.generations import EVERYTHING
from foretold.generations import FileGenerations, MemoryGenerations

SECRET = bytes(32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "generations.json"


async def test_a_renewed_tag_has_another_value_and_the_others_keep_theirs(path):
    generations = FileGenerations(path, SECRET)
    await generations.renew(["a", "b"])
    before = generations.now()
    await generations.renew(["a"])
    after = generations.now()

    assert after["a"] != before["a"]
    assert after["b"] == before["b"]
    assert after[EVERYTHING] == before[EVERYTHING]
    assert all(len(value) == 16 for value in after.values())


async def test_the_table_is_the_same_object_until_it_changes(path):
    generations = FileGenerations(path, SECRET)
    first = generations.now()

    assert generations.now() is first
    await generations.renew(["a"])
    assert generations.now() is not first


async def test_the_table_outlives_its_process(path):
    first = FileGenerations(path, SECRET)
    await first.renew(["a"])

    assert dict(FileGenerations(path, SECRET).now()) == dict(first.now())


async def test_two_processes_never_undo_each_others_purges(path):
    one, other = FileGenerations(path, SECRET), FileGenerations(path, SECRET)
    await one.renew(["a"])
    await other.renew(["b"])

    table = FileGenerations(path, SECRET).now()
    assert table["a"] == one.now()["a"]
    assert table["b"] == other.now()["b"]


@pytest.mark.parametrize("damage", ["lost", "cut", "not json", "other secret", "a value changed", "a tag gone"])
async def test_a_lost_or_damaged_table_kills_all(path, damage):
    generations = FileGenerations(path, SECRET)
    await generations.renew(["a"])
    old = generations.now()[EVERYTHING]
    secret, text = SECRET, path.read_text()
    kept = json.loads(text)
    if damage == "lost":
        path.unlink()
    elif damage == "cut":
        path.write_text(text[:-5])
    elif damage == "not json":
        path.write_bytes(b"\xff")
    elif damage == "other secret":
        secret = b"1" * 32
    elif damage == "a value changed":
        kept["table"]["a"] = "0" * 16
        path.write_text(json.dumps(kept))
    else:
        del kept["table"]["a"]
        path.write_text(json.dumps(kept))

    assert FileGenerations(path, secret).now()[EVERYTHING] != old


async def test_the_file_is_this_users_alone(path):
    FileGenerations(path, SECRET)

    assert path.stat().st_mode & 0o777 == 0o600


async def test_generations_in_memory_begin_anew():
    assert MemoryGenerations().now()[EVERYTHING] != MemoryGenerations().now()[EVERYTHING]


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


async def test_what_another_process_renewed_is_known_before_a_table_is_a_quarter_of_a_second_old(path):
    clock = Clock()
    one, other = FileGenerations(path, SECRET, now_s=clock), FileGenerations(path, SECRET)
    before = one.now()
    await other.renew(["a"])
    still = one.now()
    clock.s = 0.25
    after = one.now()

    assert still is before
    assert after["a"] == other.now()["a"]


async def test_a_look_that_finds_nothing_new_keeps_the_table(path):
    clock = Clock()
    generations = FileGenerations(path, SECRET, now_s=clock)
    before = generations.now()
    clock.s = 1000

    assert generations.now() is before


async def test_a_look_at_a_lost_table_kills_all(path):
    generations = FileGenerations(path, SECRET)
    before = generations.now()
    path.unlink()
    generations.look()

    assert generations.now()[EVERYTHING] != before[EVERYTHING]
    assert dict(FileGenerations(path, SECRET).now()) == dict(generations.now())


async def test_while_no_table_can_be_read_or_written_every_record_is_dead(path):
    generations = FileGenerations(path, SECRET)
    path.unlink()
    path.with_suffix(".lock").unlink()
    path.parent.rename(path.parent.with_name("elsewhere"))
    generations.look()

    assert EVERYTHING not in generations.now()
    path.parent.with_name("elsewhere").rename(path.parent)
    generations.look()
    assert EVERYTHING in generations.now()
