from __future__ import annotations

import pytest

from foretold.doctor.settings import settings
from tests.worlds import text, verdict, world_of

FULL = """
[server]
port = 4000
[upstreams.openai]
url = "https://api.example/v1"
key = { env = "SOME_KEY" }
headers = { x-team = "a plain secret", x-key = { env = "SOME_KEY" } }
connect_timeout = "1500ms"
[[api_keys]]
tenant = "web"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


def test_defaults_are_valid_and_said_to_be_defaults(tmp_path):
    notes = list(settings(world_of(tmp_path)))

    assert verdict(notes) == "ok"
    assert text(notes) == "no settings file, defaults: valid, nothing unknown; 0 routes, 0 upstreams, 0 models"


def test_what_differs_from_the_defaults_is_told_and_nothing_else(tmp_path):
    notes = list(settings(world_of(tmp_path, '[server]\nport = 4000\nhost = "127.0.0.1"\nhead_timeout = "20s"\n')))

    assert [note.found for note in notes[1:]] == ["server.port = 4000", "server.head_timeout = 20 s"]


def test_no_secret_is_shown_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-secret")

    notes = list(settings(world_of(tmp_path, FULL, environ={"FORETOLD_KEY": "fk_secret"})))

    told = text(notes)
    assert "upstreams[openai].key = (hidden), from environment variable SOME_KEY" in told
    assert "upstreams[openai].url = https://api.example/v1" in told
    assert "upstreams[openai].connect_timeout = 1.5 s" in told
    assert "FORETOLD_KEY is set: (hidden)" in told
    assert not any(secret in told for secret in ("sk-secret", "fk_secret", "a plain secret"))


@pytest.mark.parametrize("broken", ["[server\n", "[server]\nprot = 1\n", '[cache]\nfresh = "1 year"\n'])
def test_settings_that_are_not_valid_are_a_fault_with_the_reader_s_own_words(tmp_path, broken):
    notes = list(settings(world_of(tmp_path, broken)))

    assert verdict(notes) == "fault"
    assert notes[0].found.startswith(str(tmp_path / "foretold.toml"))


def test_a_variable_that_nothing_reads_is_a_warning_with_the_nearest(tmp_path):
    notes = list(settings(world_of(tmp_path, environ={"FORETOLD_HOEM": "/x"})))

    assert verdict(notes) == "warning"
    assert "did you mean FORETOLD_HOME?" in text(notes)


def test_the_data_folder_that_invalid_settings_name_is_looked_at(tmp_path):
    from foretold.doctor.world import world
    from tests.worlds import Silent

    file = tmp_path / "foretold.toml"
    file.write_text(f'data = "{tmp_path / "named"}"\n[server]\nprot = 1\n')

    assert world(file, tell=Silent()).data == tmp_path / "named"
