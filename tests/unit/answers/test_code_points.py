"""Text is cut between code points, and loses none of its bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretold.answers.code_points import CodePoints, is_utf8

LANGUAGES = "Tiếng Việt, ภาษาไทย, العربية, 👩‍👩‍👧 and plain"


def fed(chunks: list[bytes]) -> list[bytes]:
    points = CodePoints()
    return [*(points.feed(chunk) for chunk in chunks), points.rest()]


def cut(text: bytes, places: list[int]) -> list[bytes]:
    at = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in zip(at, at[1:], strict=False)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.lists(st.integers(0, 1000), max_size=12))
def test_wherever_a_text_is_cut_every_chunk_is_whole_code_points(text, places):
    for chunk in fed(cut(text.encode(), places)):
        chunk.decode()


@given(st.binary(max_size=60), st.lists(st.integers(0, 1000), max_size=12))
def test_no_byte_is_lost_added_or_moved_whatever_came(content, places):
    assert b"".join(fed(cut(content, places))) == content


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_no_more_than_three_bytes_are_held_back(chunks):
    points, came, told = CodePoints(), 0, 0
    for chunk in chunks:
        came += len(chunk)
        told += len(points.feed(chunk))
        assert came - told <= 3


def test_one_byte_at_a_time_each_code_point_comes_with_its_last_byte():
    content = LANGUAGES.encode()

    told = fed([content[at : at + 1] for at in range(len(content))])

    assert [chunk.decode() for chunk in told if chunk] == list(LANGUAGES)


@pytest.mark.parametrize("content", [b"\xff", b"a\x80", b"\xc0", b"\xf8", b"\xe1a", b"\xf5\x80"])
def test_what_is_no_beginning_of_a_code_point_is_not_waited_for(content):
    assert CodePoints().feed(content) == content


@pytest.mark.parametrize(
    ("kind", "so"),
    [
        ("application/json", True),
        ("application/problem+json; charset=UTF-8", True),
        ('text/plain; charset="utf-8"', True),
        ("text/event-stream", True),
        ("text/html; charset=iso-8859-1", False),
        ("audio/mpeg", False),
        ("application/octet-stream", False),
        ("", False),
    ],
)
def test_only_text_in_utf8_is_cut_anew(kind, so):
    assert is_utf8(kind) is so
