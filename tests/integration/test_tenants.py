"""Nobody ever gets another's answer (rules N1 and N2)."""

from __future__ import annotations

import itertools

import pytest

from foretold.contract.namespace import api_key_hash
from tests.integration.test_controls import NARROWER, REFRESH
from tests.running import in_front_of, running

KEYS = f"""
[[api_keys]]
tenant = "web"
sha256 = "{api_key_hash("key-of-web")}"
[[api_keys]]
tenant = "web"
sha256 = "{api_key_hash("second-key-of-web")}"
[[api_keys]]
tenant = "mobile"
sha256 = "{api_key_hash("key-of-mobile")}"
"""


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_two_credentials_never_share(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [
            await node.chat("hello", headers)
            for headers in (
                {},
                bearer("a"),
                bearer("b"),
                {"x-api-key": "c"},
                {"api-key": "d"},
                {"authorization": "Basic e"},
            )
        ]

    assert not any(a.is_hit for a in answers)
    assert len({a.text for a in answers}) == len(answers)


async def test_one_credential_is_one_caller_whatever_header_carries_it(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        await node.chat("hello", bearer("a"))
        again = await node.chat("hello", {"x-api-key": "a"})

    assert again.is_hit


async def test_keys_of_one_tenant_share_and_those_of_two_do_not(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        await node.chat("hello", bearer("key-of-web"))
        same = await node.chat("hello", bearer("second-key-of-web"))
        other = await node.chat("hello", bearer("key-of-mobile"))

    assert same.is_hit
    assert not other.is_hit


@pytest.mark.parametrize("headers", [{}, bearer("wrong"), bearer(""), {"authorization": "key-of-"}], ids=str)
async def test_without_a_valid_api_key_there_is_no_answer_not_even_a_kept_one(upstream, tmp_path, headers):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        await node.chat("hello", bearer("key-of-web"))
        refused = await node.chat("hello", headers)
        models = await node.send("GET", "/v1/models", headers=headers)

    assert refused.status == models.status == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "key" in refused.json["error"]["message"]
    assert len(upstream.calls) == 1


async def test_every_wrong_credential_is_told_the_same(upstream, tmp_path):
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        told = {(await node.chat("x", bearer(key))).body for key in ("wrong", "key-of-we", "KEY-OF-WEB", "")}

    assert len(told) == 1


async def test_two_different_credentials_are_refused(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        refused = await node.chat("hello", {**bearer("a"), "x-api-key": "b"})
        equal = await node.chat("hello", {**bearer("a"), "x-api-key": "a"})

    assert refused.status == 400
    assert refused.json["error"]["code"] == "two_credentials"
    assert equal.status == 200


async def test_a_gateway_key_beside_a_credential_is_another_tenant_than_either(upstream, tmp_path):
    async with running(in_front_of(upstream.url), tmp_path) as node:
        answers = [
            await node.chat("hello", headers)
            for headers in (
                bearer("a"),
                {"cf-aig-authorization": "Bearer g"},
                {**bearer("a"), "cf-aig-authorization": "Bearer g"},
                {**bearer("b"), "cf-aig-authorization": "Bearer g"},
            )
        ]

    assert not any(a.is_hit for a in answers)


async def test_no_control_widens_a_callers_scope(upstream, tmp_path):
    """Every combination of two narrowing or refreshing controls: never a text of the other tenant."""
    async with running(in_front_of(upstream.url, KEYS), tmp_path) as node:
        theirs = set()
        for headers in [{}, *NARROWER]:
            theirs.add((await node.chat("hello", {**bearer("key-of-web"), **headers})).text)
        mine = set()
        for one, other in itertools.product([{}, *NARROWER, *REFRESH], repeat=2):
            mine.add((await node.chat("hello", {**bearer("key-of-mobile"), **one, **other})).text)

    assert not theirs & mine


async def test_a_shared_route_is_shared_by_all_who_may_ask(upstream, tmp_path):
    shared = '[[routes]]\nname = "faq"\nmodels = ["*"]\nupstream = "fake"\nscope = "shared"\n'
    async with running(in_front_of(upstream.url, shared + KEYS), tmp_path) as node:
        first = await node.chat("hello", bearer("key-of-web"))
        second = await node.chat("hello", bearer("key-of-mobile"))
        stranger = await node.chat("hello")

    assert second.is_hit
    assert "key=" not in first.cache_status + second.cache_status
    assert stranger.status == 401


async def test_an_api_key_of_ours_is_never_sent_upstream(upstream, tmp_path):
    passing = '[[routes]]\nname = "r"\nmodels = ["*"]\nupstream = "fake"\npass_credential = true\n'
    async with running(in_front_of(upstream.url, passing + KEYS), tmp_path) as node:
        await node.chat("one", bearer("key-of-web"))
        await node.chat("two", {"cf-aig-authorization": "Bearer key-of-web", **bearer("their-own")})

    assert upstream.calls[0].header("authorization") is None
    assert upstream.calls[1].header("authorization") == "Bearer their-own"
    assert all(call.header("cf-aig-authorization") is None for call in upstream.calls)


async def test_a_passed_credential_goes_to_the_routes_own_origin_and_no_fallback(upstream, tmp_path):
    from tests.fakes.upstream import FakeUpstream, whole

    async def down(call, writer, serial):
        await whole(writer, b'{"error":{"message":"down"}}', status=500)

    async with FakeUpstream() as first:
        first.on("m", down)
        settings = f"""
        [upstreams.first]
        url = "{first.url}"
        [upstreams.second]
        url = "{upstream.url}"
        [[routes]]
        name = "r"
        models = ["*"]
        upstream = "first"
        fallback = ["second"]
        pass_credential = true
        """
        async with running(settings, tmp_path) as node:
            answered = await node.chat("hello", bearer("mine"))
            again = await node.chat("hello", bearer("mine"))

    assert answered.status == 200
    assert "detail=fallback" in answered.cache_status
    assert "stored" not in answered.cache_status
    assert not again.is_hit
    assert first.calls[0].header("authorization") == "Bearer mine"
    assert upstream.calls[0].header("authorization") is None


@pytest.mark.parametrize("keys", ["", KEYS])
async def test_who_should_bring_a_credential_and_does_not_spends_none_of_the_nodes(
    upstream, tmp_path, keys, monkeypatch
):
    monkeypatch.setenv("NODES_KEY", "sk-of-the-node")
    route = "[[routes]]\nname = 'r'\nmodels = ['own']\nupstream = 'fake'\npass_credential = true\n"
    other = "[[routes]]\nname = 'o'\nmodels = ['*']\nupstream = 'fake'\n"
    settings = in_front_of(upstream.url, 'key = { env = "NODES_KEY" }\n' + route + other + keys)
    async with running(settings, tmp_path) as node:
        headers = bearer("key-of-web") if keys else {}
        await node.chat("hello", headers, model="own")
        await node.chat("hello", headers, model="other")

    assert upstream.calls[0].header("authorization") is None
    assert upstream.calls[1].header("authorization") == "Bearer sk-of-the-node"
