from __future__ import annotations

import pytest

from foretold.config.settings import UpstreamSettings
from foretold.config.values import Secret
from foretold.doctor.answers import Answer, judged
from foretold.doctor.upstreams import models_address
from tests.worlds import text, verdict

KEY = Secret("environment variable SOME_KEY", "sk-secret")
LIST = b'{"object": "list", "data": [{"id": "a"}, {"id": "b"}]}'


def judge(status: int, body: bytes = b"", *, url="https://api.example/v1", key=KEY, callers=False, location=""):
    upstream = UpstreamSettings(name="up", url=url, key=key)
    return list(judged(upstream, Answer(status, body, 12.0, location), callers_bring_keys=callers))


def test_a_list_of_models_is_well():
    notes = judge(200, LIST)

    assert verdict(notes) == "ok"
    assert "2 models" in text(notes)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": 7}', b""])
def test_an_answer_without_a_list_of_models_is_a_warning(body):
    assert verdict(judge(200, body)) == "warning"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_a_fault_that_says_where_it_comes_from_and_not_what_it_is(status):
    notes = judge(status)

    assert verdict(notes) == "fault"
    assert "the key is refused" in text(notes)
    assert "SOME_KEY" in text(notes)
    assert "sk-secret" not in text(notes)


def test_no_key_is_a_warning_unless_callers_bring_their_own():
    assert verdict(judge(401, key=None)) == "warning"
    assert verdict(judge(401, key=None, callers=True)) == "ok"


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("https://api.example/v1/v1", "https://api.example/v1"),
        ("https://api.example/openai/v1/v1/", "https://api.example/openai/v1"),
        ("https://api.example/v1/chat/completions", "https://api.example/v1"),
        ("https://api.example/v1/models", "https://api.example/v1"),
    ],
)
def test_a_doubled_or_too_long_base_address_is_a_fault_with_the_right_one(url, right):
    notes = judge(404, url=url)

    assert verdict(notes) == "fault"
    assert f'url = "{right}"' in text(notes)


@pytest.mark.parametrize("url", ["https://api.example", "https://api.example/openai"])
def test_a_base_address_without_v1_is_a_warning_that_says_what_is_added(url):
    notes = judge(404, url=url)

    assert verdict(notes) == "warning"
    assert "/v1" in text(notes)


def test_a_redirect_is_a_fault_that_says_where_to():
    notes = judge(301, location="https://u:p@other.example/v1/models?token=sk-1")

    assert verdict(notes) == "fault"
    assert "https://other.example/v1/models" in text(notes)
    assert "sk-1" not in text(notes)


@pytest.mark.parametrize("status", [418, 429, 500, 503])
def test_trouble_of_the_upstream_s_own_is_a_warning(status):
    assert verdict(judge(status)) == "warning"


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://a/v1", "https://a/v1/models"),
        ("https://a/v1/", "https://a/v1/models"),
        ("https://a", "https://a/v1/models"),
        ("https://a/b/", "https://a/b/v1/models"),
    ],
)
def test_models_are_asked_where_the_node_would_ask(url, asked):
    assert models_address(url) == asked
