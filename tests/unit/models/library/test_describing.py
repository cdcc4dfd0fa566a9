"""From a model's file to its manifest."""

from __future__ import annotations

import pytest

from foretold.models.library.gguf import BadGguf
from tests.fakes import tiny_models


def test_a_chat_model_can_what_its_template_says(tmp_path):
    plain = tiny_models.described_as(tiny_models.llama(tmp_path / "plain.gguf"))
    calling = tiny_models.described_as(tiny_models.llama(tmp_path / "calls.gguf", template=tiny_models.WITH_TOOLS))
    given = tiny_models.described_as(tmp_path / "plain.gguf", chat_template=tiny_models.WITH_TOOLS)

    assert plain.capabilities == {"chat", "completion"}
    assert calling.capabilities == given.capabilities == {"chat", "completion", "tools"}
    assert given.chat_template == tiny_models.WITH_TOOLS


def test_a_model_of_vectors_can_nothing_else_and_takes_what_it_was_made_for(tmp_path):
    manifest = tiny_models.described_as(tiny_models.bert(tmp_path / "tiny.gguf", context=300), parallel=3)

    assert manifest.embeds
    assert (manifest.capabilities, manifest.context, manifest.trained_context) == ({"embedding"}, 300, 300)
    # Its buffers are those of one text, however many may be asked for.
    assert manifest.memory_bytes == manifest.fixed_bytes + manifest.token_bytes * 300


@pytest.mark.parametrize(
    ("made", "why"),
    [({"pooling": None}, "convert it anew"), ({"pooling": 4}, "ranks texts"), ({"context": 128}, "at most 128 tokens")],
)
def test_a_model_of_vectors_that_cannot_be_asked_is_refused(tmp_path, made, why):
    with pytest.raises(BadGguf, match=why):
        tiny_models.described_as(tiny_models.bert(tmp_path / "tiny.gguf", **made))


def test_a_kind_that_gives_neither_text_nor_vectors_is_refused(tmp_path):
    with pytest.raises(BadGguf, match="writes no text and gives no vectors"):
        tiny_models.described_as(tiny_models.llama(tmp_path / "clip.gguf", general__architecture="clip"))
