from __future__ import annotations

import pytest

from foretold.datafolder import DataFolder, write_whole
from foretold.errors import ConfigError


def test_the_secret_is_made_once_and_is_this_users_alone(tmp_path):
    folder = DataFolder(tmp_path / "data")

    secret = folder.secret()

    assert len(secret) == 32
    assert DataFolder(tmp_path / "data").secret() == secret
    assert (tmp_path / "data" / "secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "short", "00" * 31, "zz" * 32])
def test_a_secret_that_is_none_is_an_error_and_never_replaced(tmp_path, text):
    (tmp_path / "secret").write_text(text)

    with pytest.raises(ConfigError, match="32 bytes"):
        DataFolder(tmp_path).secret()
    assert (tmp_path / "secret").read_text() == text


def test_the_admin_token_is_made_once(tmp_path):
    assert DataFolder(tmp_path).admin_token() == DataFolder(tmp_path).admin_token() != ""


def test_a_folder_that_cannot_be_made_is_told_with_what_to_set(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ConfigError, match="FORETOLD_HOME"):
        DataFolder(tmp_path / "file" / "data")


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"one")
    write_whole(path, b"two")

    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_with_spaces_and_other_scripts_works(tmp_path):
    folder = DataFolder(tmp_path / "dữ liệu ž 張")

    assert len(folder.secret()) == 32
