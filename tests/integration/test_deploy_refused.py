"""What the account refuses, by its tokens, permissions, limits and rules: told before anything is half done."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from foretold.deploy.plan import Domain, Module
from foretold.errors import DeployError, DeployForbidden
from tests.edges import (
    MODULES,
    apply,
    apply_at,
    apply_once,
    calls_of,
    destroy,
    edge,
    nothing,
    plan,
    plan_once,
    script,
)
from tests.fakes.cloudflare_api import TOKEN, ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.things import ALL_PERMISSIONS, Token


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


async def test_a_wrong_token_is_told_with_where_to_make_one(api):
    with pytest.raises(DeployForbidden, match=r"doesn't know this API token.*api-tokens"):
        await plan(api, edge(), token="wrong")

    assert len(api.calls) <= 2


def _grants(api: CloudflareApi, *names: str) -> None:
    api.things.tokens[TOKEN] = Token(set(names))


@pytest.mark.parametrize("lacking", ALL_PERMISSIONS)
@pytest.mark.parametrize("reads_itself", [True, False], ids=["a token that may read itself", "one that may not"])
async def test_each_missing_permission_is_named_before_anything_is_written(api, lacking, reads_itself):
    more = ("API Tokens Read",) if reads_itself else ()
    _grants(api, *(p for p in ALL_PERMISSIONS if p != lacking), *more)

    with pytest.raises(DeployForbidden) as told:
        await plan(api, edge())

    words = {"Zone Read": "Zone · Zone · Read"}.get(lacking, lacking.removesuffix(" Write"))
    assert words in str(told.value)
    assert str(told.value).count(" · ") == 2
    assert "https://dash.cloudflare.com/profile/api-tokens" in str(told.value)
    assert api.writes == []


async def test_all_missing_permissions_are_named_together(api):
    _grants(api)

    with pytest.raises(DeployForbidden) as told:
        await plan(api, edge())

    assert all(area in str(told.value) for area in ("Scripts", "KV Storage", "R2 Storage", "Routes", "Zone · Zone"))


async def test_a_token_that_may_only_read_is_told_at_its_first_write_what_it_lacks(api):
    _grants(api, *(p.replace("Write", "Read") for p in ALL_PERMISSIONS))

    with pytest.raises(DeployForbidden, match="Workers KV Storage · Edit"):
        await apply(api, edge())

    _grants(api, *ALL_PERMISSIONS)
    await apply(api, edge())
    assert (await plan(api, edge())).changes.steps == ()


async def test_a_token_of_another_account_is_told_so(api):
    api.things.tokens[TOKEN].account_id = "f" * 32

    with pytest.raises(DeployForbidden, match="another account"):
        await plan(api, edge())


async def test_the_free_plans_limit_is_told_with_when_it_ends(api):
    api.fail(1, status=429, code=10048, message="free usage limit exceeded")

    with pytest.raises(DeployError, match=r"free usage limit exceeded \[10048\]; .*00:00 UTC"):
        await apply(api, edge())


async def test_r2_that_is_not_turned_on_is_told_with_where_to_turn_it_on(api):
    api.things.has_r2 = False

    with pytest.raises(DeployError, match="turn it on in the dashboard"):
        await apply(api, edge())


async def test_too_many_calls_are_told_with_how_long_to_wait(api):
    api.calls_left = 5

    with pytest.raises(DeployError, match="five minutes"):
        await apply(api, edge())


async def test_code_that_cannot_start_replaces_nothing(api):
    await apply(api, edge())
    before = api.things.scripts["prediction-worker"]
    planned_calls = len(api.calls)
    await plan(api, edge())
    api.fail(
        len(api.calls) - planned_calls + 1, status=400, code=10021, message="SyntaxError at prediction_worker.js:1"
    )
    changed = edge(with_script=script(modules=(MODULES[0], replace(MODULES[1], content=b"export const answer = ;"))))

    with pytest.raises(DeployError, match=r"SyntaxError.*nothing was replaced"):
        await apply(api, changed)

    assert api.things.scripts["prediction-worker"] is before


async def test_static_files_whose_session_ended_are_no_fault_of_the_token(api):
    api.fail(await calls_of(apply_once, after=nothing, up_to="/assets/upload"), status=401, code=10001)

    with pytest.raises(DeployError, match="closed the upload of static files before its end: run it again"):
        await apply(api, edge())

    await apply(api, edge())
    assert (await plan(api, edge())).changes.steps == ()


async def test_an_upload_that_the_account_does_not_show_afterwards_is_an_error(api):
    await apply(api, edge())
    changed = edge(with_script=script(ai=None))
    # After the session of its static files.
    api.pretend(await calls_of(plan_once, after=apply_at) + 2)

    with pytest.raises(DeployError, match="the account still shows something else: script prediction-worker"):
        await apply(api, changed)


async def test_every_call_is_known_to_the_api_and_in_its_form(api):
    await apply(api, edge(domain=Domain(zone_id=ZONE_ID, hostname="ai.example.com"), workers_dev=True))
    await destroy(api, edge())

    wrong = [str(c) for c in api.calls if c.status >= 400]
    # What isn't there yet, and what a token may do without: reading itself, and the zone's DNS.
    assert all(" 404" in call or "/user/tokens/" in call or "/dns_records" in call for call in wrong)
    assert json.loads(api.writes[0].body) == {"title": "PredictionCache"}


async def test_a_module_in_a_folder_keeps_its_name(api):
    deep = Module(name="contract/key.js", content=b"export {};", content_type="application/javascript+module")
    await apply(api, edge(with_script=script(modules=(*MODULES, deep))))

    assert "contract/key.js" in api.things.scripts["prediction-worker"].modules
