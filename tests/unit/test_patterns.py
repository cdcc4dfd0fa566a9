"""Patterns: `*` and `?` are special, and nothing else is."""

from __future__ import annotations

import time

import pytest

from foretold.patterns import is_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "taken", "refused"),
    [
        ("gpt-4", ["gpt-4"], ["gpt-40", "GPT-4", "xgpt-4", ""]),
        ("gpt-[4]", ["gpt-[4]"], ["gpt-4"]),
        ("gpt-[!4]*", ["gpt-[!4]x"], ["gpt-5"]),
        ("*", ["", "anything", "two\nlines"], []),
        ("gpt-*", ["gpt-", "gpt-4"], ["gpt"]),
        ("*-mini", ["a-mini", "-mini", "-mini-mini"], ["a-mini2"]),
        ("a*b*c", ["abc", "a-b-c", "abcbc"], ["acb", "ab", "ac"]),
        ("a**c", ["ac", "abc"], ["a"]),
        ("gpt-?", ["gpt-4", "gpt-\n"], ["gpt-", "gpt-40"]),
        ("*?", ["a", "ab"], [""]),
        ("?*b?*b", ["abab", "xxbybb"], ["bab", "abb"]),
        ("a.c+", ["a.c+"], ["abc+", "a.cc"]),
    ],
)
def test_a_pattern_takes_what_it_says(pattern, taken, refused):
    assert [text for text in (*taken, *refused) if matches(text, pattern)] == taken


def test_only_stars_and_question_marks_make_a_pattern():
    assert [p for p in ("a", "a[b]", "a*", "?") if is_pattern(p)] == ["a*", "?"]


def test_no_text_takes_long_whatever_the_pattern():
    began = time.process_time()

    assert not matches("a" * 20_000, "*a" * 50 + "b")

    assert time.process_time() - began < 5
