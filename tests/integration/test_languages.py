"""Routes that choose by the language of a question, and models that have another name at their upstream."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from foretold import languages
from foretold.config import load
from foretold.errors import ConfigError
from tests.fakes.upstream import FakeUpstream
from tests.running import running

SAID = {
    "vi": "Thủ đô của Việt Nam là gì?",
    "th": "เมืองหลวงของประเทศไทยคืออะไร",
    "en": "What is the capital of Vietnam?",
}
UPSTREAMS = """
[upstreams.one]
url = "{one}"
[upstreams.other]
url = "{other}"
"""
BY_LANGUAGE = """
[[routes]]
name = "viet"
models = ["auto", "m"]
languages = ["vi"]
upstream = "one"
upstream_model = "viet-7b"
[[routes]]
name = "rest"
models = ["*"]
upstream = "other"
"""


@asynccontextmanager
async def two():
    async with FakeUpstream() as one, FakeUpstream() as other:
        yield one, other, UPSTREAMS.format(one=one.url, other=other.url)


def key_of(answered) -> str:
    return answered.cache_status.partition('key="')[2].partition('"')[0]


async def test_each_language_goes_to_its_own_upstream_and_is_a_hit_there(tmp_path):
    async with two() as (one, other, upstreams), running(upstreams + BY_LANGUAGE, tmp_path) as node:
        answers = {code: await node.chat(text) for code, text in SAID.items()}
        again = {code: await node.chat(text, stream=True) for code, text in SAID.items()}

    assert [call.json["messages"][-1]["content"] for call in one.calls] == [SAID["vi"]]
    assert [call.json["messages"][-1]["content"] for call in other.calls] == [SAID["th"], SAID["en"]]
    for code, answered in again.items():
        assert answered.is_hit
        assert answered.text == answers[code].text
        assert SAID[code] in answered.text


async def test_the_last_message_decides_whatever_was_said_before(tmp_path):
    before = [{"role": "user", "content": SAID["en"]}, {"role": "assistant", "content": "Hanoi."}]
    async with two() as (one, other, upstreams), running(upstreams + BY_LANGUAGE, tmp_path) as node:
        path, last = "/v1/chat/completions", {"role": "user", "content": SAID["vi"]}
        await node.post(path, {"model": "auto", "messages": [*before, last]})
        await node.post(path, {"model": "auto", "messages": [last, *before]})

    assert len(one.calls) == 1
    assert len(other.calls) == 1


async def test_every_dialect_of_a_question_goes_the_same_way(tmp_path):
    async with two() as (one, other, upstreams), running(upstreams + BY_LANGUAGE, tmp_path) as node:
        await node.post("/ai/run/auto", {"prompt": SAID["vi"]})
        by_chat = await node.post(
            "/v1/chat/completions", {"model": "auto", "messages": [{"role": "user", "content": SAID["vi"]}]}
        )
        await node.post("/predict/auto", {"prompt": SAID["vi"]})
        await node.post("/v1/completions", {"model": "auto", "prompt": SAID["vi"]})
        passed = {"cache-control": "no-store"}
        await node.post("/v1/completions", {"model": "auto", "prompt": SAID["vi"]}, passed)

    assert by_chat.is_hit
    assert len(one.calls) == 4
    assert other.calls == []


async def test_an_answer_of_one_route_is_never_given_for_another_though_the_language_moves(tmp_path):
    """The same question, sent elsewhere by other settings: its key names where it was answered."""
    async with two() as (one, other, upstreams), running(upstreams + BY_LANGUAGE, tmp_path) as node:
        first = await node.chat(SAID["vi"])
        await node.reload(
            upstreams + BY_LANGUAGE.replace('["vi"]', '["th"]').replace('upstream_model = "viet-7b"\n', "")
        )
        moved = await node.chat(SAID["vi"])
        thai = await node.chat(SAID["th"])
        await node.reload(upstreams + BY_LANGUAGE)
        back = await node.chat(SAID["vi"])

    assert not moved.is_hit
    assert not thai.is_hit
    assert key_of(moved) != key_of(first)
    assert back.is_hit
    assert back.text == first.text
    assert (len(one.calls), len(other.calls)) == (2, 1)


async def test_a_question_no_route_takes_is_told_its_language(tmp_path):
    only = BY_LANGUAGE.partition('[[routes]]\nname = "rest"')[0]
    async with two() as (one, _, upstreams), running(upstreams + only, tmp_path) as node:
        thai = await node.chat(SAID["th"])
        untold = await node.chat("12345")
        unknown = await node.chat("hello", model="else")

    assert (thai.status, thai.json["error"]["code"]) == (404, "model_not_found")
    assert "'th'" in thai.json["error"]["message"]
    assert "can't be told" in untold.json["error"]["message"]
    assert "No model 'else'" in unknown.json["error"]["message"]
    assert one.calls == []


ALIAS = """
[[routes]]
name = "small"
models = ["small", "tiny"]
upstream = "one"
upstream_model = "gpt-4.1-mini"
fallback = ["other"]
"""


async def test_an_alias_is_asked_under_its_name_at_the_upstream_and_at_its_fallback(tmp_path):
    async with two() as (one, other, upstreams), running(upstreams + ALIAS, tmp_path) as node:
        await node.chat("hello", model="small", temperature=1.0)
        by_other_alias = await node.chat("hello", model="tiny", temperature=1)
        await node.post("/predict/small", {"prompt": "hello"})
        await one.goes_down()
        instead = await node.chat("something else", model="small")
        listed = (await node.send("GET", "/v1/models")).json

    assert by_other_alias.is_hit
    assert [call.json["model"] for call in one.calls] == ["gpt-4.1-mini"] * 2
    assert b'"temperature":1.0' in one.calls[0].body.replace(b" ", b"")
    assert instead.headers["foretold-fallback"] == "other"
    assert other.calls[0].json["model"] == "gpt-4.1-mini"
    assert {"small", "tiny"} <= {model["id"] for model in listed["data"]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('["vi"]', '["vn"]'), r"routes\[0\]\.languages.*'vn' is no language that can be told apart"),
        (('["vi"]', '["VI"]'), "did you mean 'vi'"),
        (('["vi"]', '["vi", "vi"]'), "stands here twice"),
        (('["vi"]', '"vi"'), "give a list of languages"),
        (('models = ["auto", "m"]', 'kind = "json"\npath = "/x"'), "doesn't know what its texts are|no models"),
        (('upstream = "', 'revision = "1"\nupstream = "'), "route 'rest' has the same"),
        (('upstream = "one"', 'model = "smollm2-135m"'), "goes to an upstream"),
        (('url = "http://one"', 'url = "http://one"\nspeaks = "json"'), "speaks json"),
    ],
)
def test_a_choice_that_cannot_be_made_is_a_clear_error(change, says):
    settings = UPSTREAMS.format(one="http://one", other="http://other") + BY_LANGUAGE + "[models.smollm2-135m]\n"

    with pytest.raises(ConfigError, match=says):
        load(settings.replace(*change))


def test_where_no_detector_is_installed_the_settings_say_how_to_get_it(monkeypatch):
    monkeypatch.setattr(languages.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=r"routes\[0\]\.languages.*pip install 'foretold\[languages\]'"):
        load(UPSTREAMS.format(one="http://one", other="http://other") + BY_LANGUAGE)
