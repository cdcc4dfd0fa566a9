"""In which language a question is asked: by its last user's words, the same each time, at a bounded cost."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold import languages
from foretold.config.languages import CODES
from foretold.errors import ConfigError
from foretold.languages import language, language_of, said_in
from foretold.ports import Asked

SAID = {
    "vi": "Thủ đô của Việt Nam là gì?",
    "th": "เมืองหลวงของประเทศไทยคืออะไร",
    "ar": "ما هي عاصمة مصر؟",
    "en": "What is the capital of Vietnam?",
    "fr": "Quelle est la capitale du Vietnam ?",
    "ja": "ベトナムの首都はどこですか",
}


def asked(operation: str = "chat", **members) -> Asked:
    return Asked(operation=operation, model="m", method="POST", path="/x", body=json.dumps(members).encode())


def user(content) -> dict:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("code", SAID)
def test_a_sentence_is_known_in_capitals_decomposed_and_among_emoji_too(code):
    for text in (
        SAID[code],
        SAID[code].upper(),
        unicodedata.normalize("NFD", SAID[code]),
        f"👩‍👩‍👧 {SAID[code]} 12 🇻🇳\n\n",
    ):
        assert language(text) == code


@pytest.mark.parametrize("text", ["", "   ", "1234", "👩‍👩‍👧 🇻🇳", "?!", "hm", "\x00\x01", "print('x')"])
def test_what_is_no_text_or_too_little_of_one_has_no_language(text):
    assert language(text) is None


def test_the_last_message_of_the_user_decides():
    talk = [
        user(SAID["vi"]),
        {"role": "assistant", "content": SAID["ja"]},
        user(SAID["th"]),
        {"role": "tool", "content": SAID["fr"]},
    ]

    assert language_of(asked(messages=[{"role": "system", "content": SAID["en"]}, *talk])) == "th"
    assert language_of(asked(messages=talk[:2])) == "vi"


def test_texts_in_parts_prompts_and_predictions_are_read_too():
    parts = [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": SAID["vi"]}]

    assert language_of(asked(messages=[user(parts)])) == "vi"
    assert language_of(asked("completion", prompt=SAID["th"])) == "th"
    assert language_of(asked("completion", prompt=[SAID["th"]])) == "th"
    assert language_of(asked("predict", prompt=SAID["ar"])) == "ar"
    assert language_of(asked("predict", features=[1, 2])) is None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"5", b'{"messages": 5}', b'{"messages": [5]}', b'{"messages": [{"role": "user"}]}', b"\xff"]
)
def test_a_body_that_tells_nothing_has_no_language(body):
    assert language_of(Asked(operation="chat", model="m", method="POST", path="/x", body=body)) is None


def test_of_a_long_question_the_beginning_decides_and_of_one_too_long_to_be_kept_nothing():
    long = SAID["vi"] * 200 + SAID["en"] * 100_000

    assert language_of(asked(messages=[user(long)])) == "vi"
    assert len(said_in(asked(messages=[user(long)]))) <= 2000
    assert len(said_in(asked(messages=[user([{"text": long}] * 50)]))) <= 2000
    assert language_of(asked(messages=[user(long * 2)])) is None


@given(st.text(max_size=300))
def test_any_text_has_one_language_or_none_each_time_the_same(text):
    found = language(text)

    assert found is None or found in CODES
    assert language(text) == found


def test_every_language_that_can_be_named_is_one_that_can_be_told():
    labels, _ = languages._detector().predict("hello", k=1000, threshold=-1.0)

    assert {label.removeprefix("__label__") for label in labels} == CODES


def test_without_the_detector_it_is_said_how_to_install_it(monkeypatch):
    languages._detector.cache_clear()
    monkeypatch.setattr(languages.importlib.util, "find_spec", lambda name: None)

    assert not languages.is_installed()
    with pytest.raises(ConfigError, match=r"pip install 'foretold\[languages\]'"):
        language("hello there")
    languages._detector.cache_clear()


def test_embeddings_are_in_the_language_of_their_inputs():
    assert said_in(asked("embedding", input="xin chào")) == "xin chào"
    assert said_in(asked("embedding", input=["xin", "chào"])) == "xin chào"
    assert said_in(asked("embedding", input=[[1, 2], [3]])) == ""
