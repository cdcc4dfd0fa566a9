"""The command line: what it prints, where, and how it ends."""

from __future__ import annotations

import json

import pytest

from tests.asking import chat_body
from tests.e2e.program import run, serving

COMMANDS = [[], ["serve"], ["ask"], ["cache"], ["cache", "stats"], ["cache", "get"], ["cache", "purge"], ["config"]]
COMMANDS += [["models", name] for name in ("ps", "load", "unload")]
COMMANDS += [["config", name] for name in ("check", "show", "example", "api-key")] + [
    ["doctor"],
    ["completion"],
    ["version"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "foretold")
async def test_every_command_explains_itself_with_examples(tmp_path, words):
    told = await run(*words, "--help", home=tmp_path)

    assert told.code == 0
    assert "Examples:" in told.out
    assert "foretold" in told.out
    assert told.err == ""


async def test_an_unknown_command_is_told_the_nearest(tmp_path):
    ended = await run("sreve", home=tmp_path)

    assert ended.code == 2
    assert "serve" in ended.err


async def test_settings_are_checked_shown_and_explained(tmp_path):
    example = await run("config", "example", home=tmp_path)
    (tmp_path / "foretold.toml").write_text(example.out)
    checked = await run("config", "check", "--json", home=tmp_path)
    shown = await run("config", "show", "--json", home=tmp_path)

    assert checked.json == {"valid": True, "file": "foretold.toml", "routes": 0, "upstreams": 0, "models": 0}
    assert shown.json["server"]["port"] == 3673


async def test_a_mistake_in_the_settings_is_told_with_file_and_line(tmp_path):
    (tmp_path / "foretold.toml").write_text("[server]\n\nprot = 1\n")
    for words in (["config", "check"], ["serve"]):
        ended = await run(*words, home=tmp_path)

        assert ended.code == 3
        assert "foretold.toml:3: server.prot: unknown setting; did you mean `port`?" in ended.err
        assert "Traceback" not in ended.err


async def test_an_error_is_json_where_json_is_wanted(tmp_path):
    ended = await run(
        "cache", "stats", "--url", "http://127.0.0.1:9", home=tmp_path, FORETOLD_OUTPUT="json", FORETOLD_ADMIN_KEY="x"
    )

    assert ended.code == 5
    assert json.loads(ended.err)["error"]["code"] == "node_unreachable"


async def test_a_made_api_key_lets_in_and_only_its_digest_is_in_the_settings(upstream, tmp_path):
    made = (await run("config", "api-key", "web", "--json", home=tmp_path)).json
    settings = f'[upstreams.fake]\nurl = "{upstream.url}"\n[[api_keys]]\ntenant = "web"\nsha256 = "{made["sha256"]}"\n'
    async with serving(tmp_path, settings) as node:
        without, _, _ = await node.post("/v1/chat/completions", chat_body("hello"))
        with_it, _, _ = await node.post(
            "/v1/chat/completions", chat_body("hello"), {"authorization": f"Bearer {made['api_key']}"}
        )

    assert (without, with_it) == (401, 200)
    assert made["api_key"] not in settings


async def test_asking_streams_the_answer_and_says_miss_then_hit(upstream, tmp_path):
    async with serving(tmp_path, f'[upstreams.fake]\nurl = "{upstream.url}"\n') as node:
        first = await run("ask", "m", "hello", "--url", node.url, home=tmp_path)
        second = await run("ask", "m", home=tmp_path, sent="hello", FORETOLD_URL=node.url)
        as_json = await run("ask", "m", "hello", "--json", "--url", node.url, home=tmp_path)
        refreshed = await run("ask", "m", "hello", "--no-cache", "--url", node.url, home=tmp_path)

    assert first.out == second.out == "You said 'hello'. This is call 1.\n"
    assert first.err.startswith("miss · ")
    assert second.err.startswith("hit · ")
    assert "; hit" in as_json.json["cache_status"]
    assert refreshed.out == "You said 'hello'. This is call 2.\n"


async def test_what_the_cache_did_is_told_and_purged(upstream, tmp_path):
    async with serving(tmp_path, f'[upstreams.fake]\nurl = "{upstream.url}"\n') as node:
        _, headers, _ = await node.post("/v1/chat/completions", chat_body("hello"))
        await node.post("/v1/chat/completions", chat_body("hello"))
        key = headers["cache-status"].partition('key="')[2].rstrip('"')
        stats = await run("cache", "stats", "--json", "--url", node.url, home=tmp_path)
        plain = await run("cache", "stats", "--url", node.url, home=tmp_path)
        record = await run("cache", "get", key, "--json", "--url", node.url, home=tmp_path)
        absent = await run("cache", "get", "0" * 64, "--url", node.url, home=tmp_path)
        unsure = await run("cache", "purge", "--model", "m", "--url", node.url, home=tmp_path)
        purged = await run("cache", "purge", "--model", "m", "--yes", "--url", node.url, home=tmp_path)
        _, after, _ = await node.post("/v1/chat/completions", chat_body("hello"))

    assert stats.json["how"]["hit"] == 1
    assert "hit\t1\t50.0%" in plain.out
    assert record.json["record"]["model"] == "m"
    assert "hello" not in record.out
    assert absent.code == 6
    assert unsure.code == 2
    assert "--yes" in unsure.err
    assert purged.code == 0
    assert "fwd=uri-miss" in after["cache-status"]


@pytest.mark.parametrize("words", [["cache", "stats"], ["cache", "get", "0" * 64], ["ask", "m", "hello"]], ids=" ".join)
async def test_a_node_that_is_not_there_is_said_so(tmp_path, words):
    ended = await run(*words, "--url", "http://127.0.0.1:9", home=tmp_path, FORETOLD_ADMIN_KEY="x")

    assert ended.code == 5
    assert "foretold serve" in ended.err
    assert "Traceback" not in ended.err


async def test_piped_output_has_no_escape_byte(tmp_path):
    for words in (["version"], ["--help"], ["config", "show"], ["config", "example"], ["sreve"]):
        told = await run(*words, home=tmp_path)

        assert "\x1b" not in told.out + told.err


async def test_what_a_node_refuses_ends_with_its_own_code_and_not_as_unreachable(upstream, tmp_path):
    async with serving(tmp_path, f'[upstreams.fake]\nurl = "{upstream.url}"\n') as node:
        short = await run("cache", "purge", "--key", "12", "--url", node.url, home=tmp_path)
        tag = await run("cache", "purge", "--tag", "News", "--yes", "--url", node.url, home=tmp_path)
        wrong = await run("cache", "stats", "--url", node.url, home=tmp_path, FORETOLD_ADMIN_KEY="wrong")

    assert (short.code, tag.code, wrong.code) == (2, 2, 4)
    assert "key is '12': give the 64 hex digits" in short.err
    assert "tag is 'News': give 1 to 64 of" in tag.err
    assert "unreachable" not in short.err + tag.err + wrong.err


async def test_commands_find_the_data_folder_that_the_settings_name(upstream, tmp_path):
    settings = f'data = "{tmp_path / "elsewhere"}"\n[upstreams.fake]\nurl = "{upstream.url}"\n'
    (tmp_path / "foretold.toml").write_text(settings)
    async with serving(tmp_path) as node:
        stats = await run("cache", "stats", "--json", "--url", node.url, home=tmp_path)

    assert stats.json["received"] == 0


async def test_an_api_key_is_shown_on_stderr_so_that_a_redirect_keeps_only_its_digest(tmp_path):
    made = await run("config", "api-key", "web", home=tmp_path)

    assert "fk_" in made.err
    assert "fk_" not in made.out
    assert made.out.startswith("[[api_keys]]")


async def test_wrong_use_is_json_where_json_is_wanted(tmp_path):
    ended = await run("cache", "purge", home=tmp_path, FORETOLD_OUTPUT="json")

    assert ended.code == 2
    assert json.loads(ended.err)["error"]["code"] == "wrong_use"


async def test_an_empty_prompt_is_not_asked(tmp_path):
    ended = await run("ask", "m", home=tmp_path, sent=" \n")

    assert ended.code == 2


async def test_settings_are_shown_with_their_units(tmp_path):
    shown = (await run("config", "show", "--json", home=tmp_path)).json

    assert shown["server"]["body_limit"] == "20 MiB"
    assert shown["cache"]["fresh"] == "1 d"
    assert shown["server"]["head_timeout"] == "10 s"
