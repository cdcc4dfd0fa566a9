from __future__ import annotations

import os
import shutil

import pytest

from foretold.doctor import folder
from foretold.doctor.folder import data_folder, room
from foretold.doctor.private import admin_token, generations, secret
from tests.worlds import begun, text, verdict, world_of


def test_a_folder_of_ours_alone_is_well(tmp_path):
    begun(tmp_path)

    assert verdict(list(data_folder(world_of(tmp_path)))) == "ok"


def test_looking_makes_no_folder_and_no_file(tmp_path):
    world = world_of(tmp_path)

    for check in (data_folder, room, secret, admin_token, generations):
        list(check(world))

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_can_be_made(tmp_path):
    notes = list(data_folder(world_of(tmp_path, data=tmp_path / "a" / "b")))

    assert verdict(notes) == "ok"
    assert "not there yet" in text(notes)


def test_a_file_where_the_folder_should_be_is_a_fault(tmp_path):
    (tmp_path / "data").write_text("")

    assert verdict(list(data_folder(world_of(tmp_path)))) == "fault"


def test_a_folder_below_a_file_can_t_be_made(tmp_path):
    (tmp_path / "file").write_text("")

    notes = list(data_folder(world_of(tmp_path, data=tmp_path / "file" / "data")))

    assert verdict(notes) == "fault"
    assert "can't be made" in text(notes)


def test_a_folder_that_others_may_read_is_a_warning_with_the_command(tmp_path):
    begun(tmp_path).path.chmod(0o755)

    notes = list(data_folder(world_of(tmp_path)))

    assert verdict(notes) == "warning"
    assert f"chmod 700 {tmp_path / 'data'}" in text(notes)


def test_a_folder_of_another_user_is_a_warning(tmp_path, monkeypatch):
    begun(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    notes = list(data_folder(world_of(tmp_path)))

    assert verdict(notes) == "warning"
    assert "this is uid 4711" in text(notes)


@pytest.mark.parametrize(
    ("free", "expected"), [(10 * 2**30, "ok"), (2**30, "warning"), (2**20, "fault")], ids=["room", "little", "none"]
)
def test_the_room_on_the_disk_is_held_against_the_tier_and_the_largest_record(tmp_path, monkeypatch, free, expected):
    usage = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(folder.shutil, "disk_usage", lambda path: usage)

    assert verdict(list(room(world_of(tmp_path)))) == expected


def test_a_node_without_a_disk_tier_needs_no_room(tmp_path):
    world = world_of(tmp_path, '[[tiers]]\nstore = "memory"\nlimit = "1 MiB"\n')

    assert verdict(list(room(world))) == "skipped"


def test_the_secret_and_the_token_are_never_shown(tmp_path):
    data = begun(tmp_path)
    world = world_of(tmp_path)

    told = text([*secret(world), *admin_token(world), *generations(world)])

    assert data.secret().hex() not in told
    assert data.admin_token() not in told
    assert "32 bytes" in told


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_secret_that_others_may_read_is_a_fault_with_the_command(tmp_path, mode):
    path = begun(tmp_path).path / "secret"
    path.chmod(mode)

    notes = list(secret(world_of(tmp_path)))

    assert verdict(notes) == "fault"
    assert f"chmod 600 {path}" in text(notes)


@pytest.mark.parametrize("held", ["", "abc", "00" * 31, "zz" * 32])
def test_a_secret_of_the_wrong_length_is_a_fault(tmp_path, held):
    (begun(tmp_path).path / "secret").write_text(held)

    assert verdict(list(secret(world_of(tmp_path)))) == "fault"


def test_a_lost_secret_is_a_warning_where_answers_are_kept(tmp_path):
    data = begun(tmp_path)
    data.answers.mkdir()
    (data.path / "secret").unlink()

    assert verdict(list(secret(world_of(tmp_path)))) == "warning"


def test_an_admin_token_that_is_empty_or_open_is_a_fault(tmp_path):
    path = begun(tmp_path).path / "admin-token"
    path.chmod(0o644)
    readable = list(admin_token(world_of(tmp_path)))
    path.chmod(0o600)
    path.write_text("\n")
    empty = list(admin_token(world_of(tmp_path)))

    assert (verdict(readable), verdict(empty)) == ("fault", "fault")


def test_generations_that_are_whole_and_sealed_are_well(tmp_path):
    begun(tmp_path)

    assert verdict(list(generations(world_of(tmp_path)))) == "ok"


@pytest.mark.parametrize("damage", ["cut", "not json", "other secret", "a value changed"])
def test_generations_that_are_damaged_or_of_another_secret_are_a_fault(tmp_path, damage):
    data = begun(tmp_path)
    held = data.generations.read_bytes()
    match damage:
        case "cut":
            data.generations.write_bytes(held[:-3])
        case "not json":
            data.generations.write_bytes(b"[]")
        case "other secret":
            (data.path / "secret").write_text("11" * 32)
        case "a value changed":
            data.generations.write_bytes(held.replace(b'"table":{"*":"', b'"table":{"*":"0'))

    assert verdict(list(generations(world_of(tmp_path)))) == "fault"
