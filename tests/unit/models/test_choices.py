"""What was promoted is remembered, and never says more than the settings allow."""

from __future__ import annotations

import pytest

from foretold.config.models import ModelSettings
from foretold.errors import ModelError
from foretold.models.choices import Choice, Choices

CHOICE = Choice("file:///library", "tiny", "a" * 64, is_signed=True)


def settings(**other: object) -> ModelSettings:
    return ModelSettings(**{"name": "small", "source": "file:///library", "model": "tiny", **other})  # type: ignore[arg-type]


@pytest.fixture
def choices(tmp_path) -> Choices:
    return Choices(tmp_path / "promoted.json")


def test_what_was_promoted_is_there_for_the_next_start(choices):
    choices.keep("small", CHOICE)

    assert Choices(choices.file).of(settings()) == CHOICE
    assert choices.file.stat().st_mode & 0o077 == 0


def test_without_a_file_nothing_was_promoted(choices):
    assert choices.of(settings()) is None
    assert choices.damage is None
    choices.keep("small", None)
    assert not choices.file.exists()


@pytest.mark.parametrize(
    "other", [{"revision": "b" * 64}, {"source": "file:///other"}, {"model": "large"}, {"source": "bundled"}]
)
def test_settings_that_pin_a_revision_or_name_another_model_win(choices, other):
    choices.keep("small", CHOICE)

    assert choices.of(settings(**other)) is None


def test_each_model_has_its_own(choices):
    choices.keep("small", CHOICE)
    choices.keep("other", CHOICE)
    choices.keep("small", None)

    assert choices.of(settings()) is None
    assert choices.of(settings(name="other")) == CHOICE


@pytest.mark.parametrize("content", [b"", b"[]", b'{"promoted": {"small": {"source": 1}}}', b"\xff", b"[" * 10_000])
def test_a_damaged_file_says_so_and_counts_for_nothing_until_it_is_written_anew(choices, content):
    choices.file.write_bytes(content)

    assert "is damaged: promote again" in str(choices.damage)
    assert choices.of(settings()) is None
    choices.keep("small", CHOICE)
    assert (choices.damage, choices.of(settings())) == (None, CHOICE)


def test_a_choice_that_can_not_be_kept_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(ModelError, match=r"can't be kept in .*missing.promoted.json .* nothing was switched"):
        Choices(tmp_path / "missing" / "promoted.json").keep("small", CHOICE)
