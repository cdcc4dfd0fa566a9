"""Deploying to an account, over real sockets, before a strict stand-in for Cloudflare's API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from foretold.deploy.changes import Permits
from foretold.deploy.plan import Domain, Route, Secret, Variable, version_tag
from foretold.errors import DeployError, DeployTaken
from tests.edges import (
    ASSETS,
    MODULES,
    apply,
    edge,
    plan,
    script,
    take,
)
from tests.fakes.cloudflare_api import ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.things import Namespace, identity


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


async def test_workers_cache_stands_before_the_named_entrypoint_alone_and_outlives_uploads(api):
    cached = edge(with_script=script(cached_entrypoints=("Records",)))
    await apply(api, edge())
    bare = api.things.scripts["prediction-worker"].metadata
    planned = await plan(api, cached)

    await apply(api, cached)

    assert [step.kind for step in planned.changes.steps] == ["script"]
    told = api.things.scripts["prediction-worker"].metadata
    assert told["exports"] == {"Records": {"type": "worker", "cache": {"enabled": True}}}
    assert told["cache_options"] == {"enabled": False, "cross_version_cache": True}
    assert not {"exports", "cache_options"} & bare.keys()
    assert (await plan(api, cached)).changes.steps == ()
