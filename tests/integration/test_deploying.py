"""Deploying to an account, over real sockets, before a strict stand-in for Cloudflare's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from foretold.deploy import applying
from foretold.deploy.account import Account
from foretold.deploy.changes import Permits
from foretold.deploy.plan import Domain, Edge, Module, Route, Secret, Variable, version_tag
from foretold.errors import DeployError, DeployForbidden, DeployTaken, DeployUnreachable
from tests.edges import ASSETS, MODULES, account, apply, apply_at, destroy, destroy_at, edge, plan, script, take
from tests.fakes.cloudflare_api import TOKEN, ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.things import ALL_PERMISSIONS, Namespace, Token, identity


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


async def test_an_empty_account_gets_all_that_is_described(api):
    state = await apply(api, edge())

    deployed = api.things.scripts["prediction-worker"]
    by_name = {b["name"]: b for b in deployed.bindings}
    namespace = api.things.namespace("PredictionCache")
    assert state.kv_namespace_id == namespace.id
    assert by_name["PREDICTION_CACHE"] == {
        "type": "kv_namespace",
        "name": "PREDICTION_CACHE",
        "namespace_id": namespace.id,
    }
    assert {b["type"] for b in deployed.bindings} == {
        "kv_namespace", "r2_bucket", "ai", "ratelimit", "analytics_engine", "plain_text", "secret_text", "assets",
    }  # fmt: skip
    assert deployed.secrets == {"UPSTREAM_KEY": "sk-of-the-upstream"}
    assert deployed.modules == {m.name: (m.content_type, m.content) for m in MODULES}
    assert not deployed.on_workers_dev
    assert not deployed.has_previews
    assert [(r["pattern"], r["script"]) for r in api.things.routes.values()] == [
        ("example.com/predict*", "prediction-worker")
    ]
    assert deployed.assets == {f.path: (f.content_type, f.content) for f in ASSETS.files}
    assert deployed.metadata["assets_config"] == ASSETS.config()
    for bucket, days in (("prediction-bodies", 30), ("prediction-logs", 7)):
        expiry = api.things.buckets[bucket].lifecycle[-1]["deleteObjectsTransition"]
        assert expiry == {"condition": {"type": "Age", "maxAge": days * 86_400}}


async def test_applying_again_writes_nothing(api):
    await apply(api, edge())
    before = len(api.writes)

    planned = await plan(api, edge())
    await apply(api, edge())

    assert planned.changes.steps == ()
    assert len(api.writes) == before


async def test_a_worker_without_optional_bindings_is_planned_once(api):
    bare = edge(with_script=script(bucket=None, ai=None, rate_limit=None, analytics=None, variables=(), secrets=()))
    await apply(api, bare)

    assert (await plan(api, bare)).changes.steps == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (script(variables=(Variable(name="ORIGIN_URL", text="https://other.example"),)), "binding ORIGIN_URL is another"),
        (script(secrets=(Secret(name="UPSTREAM_KEY", text="another"),)), "a secret has another value"),
        (script(ai=None), "binding AI goes"),
        (script(compatibility_date="2026-04-02"), "its content is new"),
        (script(modules=(MODULES[0], replace(MODULES[1], content=b"export const answer = 43;"))), "its content is new"),
    ],
)  # fmt: skip
async def test_one_change_is_one_upload(api, changed, why):
    await apply(api, edge())
    before = len(api.writes)

    planned = await plan(api, edge(with_script=changed))
    await apply(api, edge(with_script=changed))

    assert why in planned.changes.steps[0].why
    # Its files are named, and none is sent again.
    assert [f"{c.method} {c.path.rpartition('/')[2]}" for c in api.writes[before:]] == [
        "POST assets-upload-session",
        "PUT prediction-worker",
    ]
    assert (await plan(api, edge(with_script=changed))).changes.steps == ()


async def test_a_secret_is_in_no_plan_and_no_error(api):
    api.fail(40, status=500, code=10013)
    planned = await plan(api, edge())

    assert "sk-of-the-upstream" not in repr(planned) + repr(edge()) + version_tag(edge())


async def test_the_worker_is_never_deleted_to_be_changed(api):
    await apply(api, edge())
    await apply(api, edge(with_script=script(ai=None, modules=(MODULES[0], replace(MODULES[1], content=b"1")))))

    assert [c for c in api.writes if c.method == "DELETE"] == []


async def test_secrets_set_elsewhere_outlive_an_upload(api):
    await apply(api, edge())
    deployed = api.things.scripts["prediction-worker"]
    deployed.bindings.append({"type": "secret_text", "name": "BY_HAND"})
    deployed.secrets["BY_HAND"] = "set in the dashboard"
    quiet = await plan(api, edge())

    await apply(api, edge(with_script=script(ai=None)))

    assert quiet.changes.steps == ()
    assert "BY_HAND" in quiet.changes.notes[-1]
    assert api.things.scripts["prediction-worker"].secrets == {
        "UPSTREAM_KEY": "sk-of-the-upstream",
        "BY_HAND": "set in the dashboard",
    }


async def test_a_secret_set_elsewhere_goes_when_it_is_named(api):
    await apply(api, edge())
    deployed = api.things.scripts["prediction-worker"]
    deployed.bindings.append({"type": "secret_text", "name": "BY_HAND"})
    deployed.secrets["BY_HAND"] = "set in the dashboard"

    await apply(api, edge(), Permits(drop_secrets=("BY_HAND",)))

    assert "BY_HAND" not in api.things.scripts["prediction-worker"].secrets


async def test_an_inherited_secret_that_vanished_is_an_error_and_replaces_nothing(api):
    await apply(api, edge())
    deployed = api.things.scripts["prediction-worker"]
    deployed.bindings.append({"type": "secret_text", "name": "BY_HAND"})
    changed = edge(with_script=script(ai=None))
    planned = await plan(api, changed)
    assert planned.changes.inherited == ("BY_HAND",)
    deployed.bindings.pop()

    with pytest.raises(DeployError, match="BY_HAND"):
        await take(api, changed, planned)

    assert api.things.scripts["prediction-worker"] is deployed


async def test_a_version_that_somebody_else_put_over_ours_is_seen_and_replaced(api):
    await apply(api, edge())
    api.things.scripts["prediction-worker"].metadata.pop("annotations")

    planned = await plan(api, edge())

    assert planned.changes.steps[0].why == ("the running version was made by somebody else",)


async def test_a_worker_of_somebody_else_is_not_replaced(api):
    theirs = api.things.add_script("prediction-worker")

    with pytest.raises(DeployTaken, match="--replace-script"):
        await apply(api, edge())

    assert api.writes == []
    assert api.things.scripts["prediction-worker"] is theirs


async def test_a_worker_of_somebody_else_is_replaced_when_told_and_keeps_its_secrets(api):
    api.things.add_script(
        "prediction-worker", bindings=[{"type": "secret_text", "name": "THEIRS"}], secrets={"THEIRS": "kept"}
    )

    await apply(api, edge(), Permits(replace_script=True))

    assert api.things.scripts["prediction-worker"].secrets["THEIRS"] == "kept"
    assert (await plan(api, edge())).changes.steps == ()


@pytest.mark.parametrize("owner", ["their-worker", None])
async def test_a_route_of_somebody_else_is_not_stolen(api, owner):
    api.things.add_script("their-worker")
    api.things.add_route("example.com/predict*", owner)

    with pytest.raises(DeployTaken, match=owner or "keeps Workers away"):
        await apply(api, edge())

    assert api.writes == []


async def test_a_route_of_somebody_else_is_taken_when_told(api):
    api.things.add_script("their-worker")
    api.things.add_route("example.com/predict*", "their-worker")

    await apply(api, edge(), Permits(take_route=True))

    assert [r["script"] for r in api.things.routes.values()] == ["prediction-worker"]


async def test_a_narrower_route_of_somebody_else_is_pointed_out(api):
    api.things.add_script("their-worker")
    api.things.add_route("example.com/predict/private*", "their-worker")

    planned = await plan(api, edge())

    assert any("example.com/predict/private*" in note and "their-worker" in note for note in planned.changes.notes)


async def test_routes_no_longer_described_stay_until_detached(api):
    await apply(api, edge())
    moved = edge(route=Route(zone_id=ZONE_ID, pattern="example.com/ask*"))

    await apply(api, moved)
    both = {r["pattern"] for r in api.things.routes.values()}
    await apply(api, moved, Permits(detach=True))

    assert both == {"example.com/predict*", "example.com/ask*"}
    assert [r["pattern"] for r in api.things.routes.values()] == ["example.com/ask*"]


async def test_a_domain_is_attached_and_never_taken_from_another_worker_untold(api):
    api.things.add_script("their-worker")
    mine = edge(route=None, domain=Domain(zone_id=ZONE_ID, hostname="ai.example.com"))
    await apply(api, mine)
    attached = [(d["hostname"], d["service"]) for d in api.things.domains.values()]
    for domain in api.things.domains.values():
        domain["service"] = "their-worker"
    before = len(api.writes)

    with pytest.raises(DeployTaken, match="--take-domain"):
        await apply(api, mine)

    assert attached == [("ai.example.com", "prediction-worker")]
    assert len(api.writes) == before
    await apply(api, mine, Permits(take_domain=True))
    assert [d["service"] for d in api.things.domains.values()] == ["prediction-worker"]


async def test_a_host_outside_of_the_zone_is_refused_before_anything_is_written(api):
    with pytest.raises(DeployTaken, match=r"elsewhere.example is not in the zone example\.com"):
        await apply(api, edge(route=Route(zone_id=ZONE_ID, pattern="elsewhere.example/*")))

    assert api.writes == []


async def test_workers_dev_without_a_subdomain_is_refused_before_anything_is_written(api):
    api.things.subdomain = None

    with pytest.raises(DeployTaken, match=r"no workers\.dev subdomain"):
        await apply(api, edge(workers_dev=True))

    assert api.writes == []


async def test_others_lifecycle_rules_stay(api):
    await apply(api, edge())

    rules = [rule["id"] for rule in api.things.buckets["prediction-bodies"].lifecycle]

    assert rules == ["Default Multipart Abort Rule", "foretold-expire"]


async def test_an_account_with_many_namespaces_is_read_to_its_end(api):
    api.things.namespaces += [Namespace(identity("kv", str(n)), f"A{n:03}") for n in range(250)]
    await apply(api, edge())

    assert (await plan(api, edge())).changes.steps == ()


# Interruptions


async def _calls_of(act: Callable[[Account, Edge], object], *, after: Callable[[Account, Edge], object]) -> int:
    async with CloudflareApi() as api:
        with account(api) as at:
            await asyncio.to_thread(after, at, edge())
            before = len(api.calls)
            await asyncio.to_thread(act, at, edge())
        return len(api.calls) - before


def _plan_once(at: Account, wanted: Edge) -> None:
    applying.plan(at, wanted, Permits())


def _nothing(at: Account, wanted: Edge) -> None:
    pass


@pytest.mark.parametrize("trouble", ["cut before", "cut after", "fault"])
async def test_interrupted_at_any_call_the_next_apply_goes_on(api, trouble):
    with account(api) as at:
        for number in range(1, await _calls_of(_apply_once, after=_nothing) + 1):
            api.begin_anew()
            _order(api, trouble, number)
            with pytest.raises(DeployError, match="run it again"):
                await asyncio.to_thread(_apply_once, at, edge())

            planned = await asyncio.to_thread(apply_at, at, edge())

            assert planned.changes.steps == (), f"{trouble} {number}"
            assert len(api.things.namespaces) == 1
            assert len(api.things.routes) == 1


def _order(api: CloudflareApi, trouble: str, number: int) -> None:
    match trouble:
        case "cut before":
            api.cut_before(number)
        case "cut after":
            api.cut_after(number)
        case "fault":
            api.fail(number, status=500, code=10013)


def _apply_once(at: Account, wanted: Edge) -> None:
    planned = applying.plan(at, wanted, Permits())
    applying.apply(at, wanted, Permits(), planned=planned, tell=lambda step: None)


# Destroying


async def test_destroying_leaves_nothing_of_ours_and_all_of_others(api):
    theirs = api.things.add_script("their-worker")
    api.things.add_route("example.com/theirs*", "their-worker")
    await apply(api, edge())

    await destroy(api, edge())

    assert api.things.scripts == {"their-worker": theirs}
    assert [r["script"] for r in api.things.routes.values()] == ["their-worker"]
    assert api.things.namespaces == []
    assert api.things.buckets == {}


async def test_destroying_cut_at_any_call_goes_on(api):
    with account(api) as at:
        for number in range(1, await _calls_of(destroy_at, after=apply_at) + 1):
            api.begin_anew()
            await asyncio.to_thread(_apply_once, at, edge())
            api.cut_after(number)
            with pytest.raises(DeployUnreachable):
                await asyncio.to_thread(destroy_at, at, edge())

            await asyncio.to_thread(destroy_at, at, edge())

            left = api.things
            assert (left.scripts, left.routes, left.namespaces, left.buckets) == ({}, {}, [], {}), str(number)


async def test_a_namespace_and_a_bucket_that_another_worker_uses_stay(api):
    await apply(api, edge())
    kv = {"type": "kv_namespace", "name": "C", "namespace_id": api.things.namespace("PredictionCache").id}
    api.things.add_script(
        "their-worker", bindings=[kv, {"type": "r2_bucket", "name": "B", "bucket_name": "prediction-bodies"}]
    )

    await destroy(api, edge())

    assert list(api.things.scripts) == ["their-worker"]
    assert [n.title for n in api.things.namespaces] == ["PredictionCache"]
    assert list(api.things.buckets) == ["prediction-bodies"]


async def test_a_worker_of_somebody_else_is_not_destroyed(api):
    api.things.add_script("prediction-worker")

    with pytest.raises(DeployTaken, match="by hand"):
        await destroy(api, edge())

    assert api.writes == []


async def test_a_bucket_with_answers_is_kept_unless_they_may_go(api):
    await apply(api, edge())
    api.things.buckets["prediction-bodies"].objects.update({f"p1/{n}": b"x" for n in range(3)})

    with pytest.raises(DeployError, match="--with-answers"):
        await destroy(api, edge())
    await destroy(api, edge(), with_answers=True)

    assert api.things.buckets == {}


# Tokens, permissions, limits


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


async def test_an_upload_that_the_account_does_not_show_afterwards_is_an_error(api):
    await apply(api, edge())
    changed = edge(with_script=script(ai=None))
    # After the session of its static files.
    api.pretend(await _calls_of(_plan_once, after=apply_at) + 2)

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
