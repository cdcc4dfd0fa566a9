"""Faults that users of other deployers met, each as the right behaviour of ours; tests/cases.toml says where they were read."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foretold.deploy.changes import Permits
from foretold.deploy.modules import collect
from foretold.deploy.plan import Domain, Edge, Route, Secret
from foretold.errors import DeployError, DeployForbidden, DeployTaken
from tests.e2e.program import run
from tests.edges import MODULES, apply, edge, plan, script, take
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.server import Call
from tests.fakes.cloudflare_api.things import ALL_PERMISSIONS, Token

BARE = {
    name: () if name in ("variables", "secrets") else None
    for name in ("bucket", "log_bucket", "ai", "rate_limit", "analytics", "variables", "secrets", "assets")
}
AT_HOST = {"route": None, "domain": Domain(zone_id=ZONE_ID, hostname="ai.example.com")}


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


@pytest.mark.parametrize(
    "wanted", [edge(), edge(with_script=script(**BARE)), edge(**AT_HOST)], ids=["all", "bare", "host"]
)
async def test_what_was_applied_is_planned_as_no_change_however_often(api: CloudflareApi, wanted: Edge) -> None:
    await apply(api, wanted)
    writes = len(api.writes)

    for _ in range(3):
        assert (await plan(api, wanted)).changes.steps == ()
        await apply(api, wanted)

    assert len(api.writes) == writes


async def test_an_unchanged_secret_is_no_change_and_one_of_others_outlives_every_upload(api: CloudflareApi) -> None:
    await apply(api, edge())
    _set_by_hand(api, "BY_HAND", "set in the dashboard")

    quiet = await plan(api, edge())
    for ai in (None, "AI", None):
        await apply(api, edge(with_script=script(ai=ai)))

    assert quiet.changes.steps == ()
    assert api.things.scripts["prediction-worker"].secrets["BY_HAND"] == "set in the dashboard"
    assert "sk-of-the-upstream" not in repr(quiet)


async def test_a_secret_travels_with_the_script_and_not_in_a_version_of_its_own(api: CloudflareApi) -> None:
    await apply(api, edge())

    assert [call for call in api.calls if "/versions" in call.path or "/secrets" in call.path] == []
    assert {"type": "secret_text", "name": "UPSTREAM_KEY", "text": "sk-of-the-upstream"} in _sent_bindings(api)


async def test_a_default_that_the_account_adds_by_itself_is_no_change(api: CloudflareApi) -> None:
    await apply(api, edge())
    deployed = api.things.scripts["prediction-worker"]
    for binding in deployed.bindings:
        binding |= {"environment": "production", "jurisdiction": None}
    deployed.metadata |= {"placement": {}, "tail_consumers": None, "logpush": False}

    assert (await plan(api, edge())).changes.steps == ()


async def test_new_content_replaces_the_old_and_the_worker_is_never_deleted_for_it(api: CloudflareApi) -> None:
    await apply(api, edge(**AT_HOST))
    reached = dict(api.things.domains)

    await apply(
        api, edge(**AT_HOST, with_script=script(modules=(MODULES[0], replace(MODULES[1], content=b"export {};"))))
    )

    assert [call for call in api.writes if call.method == "DELETE"] == []
    assert api.things.domains == reached
    assert api.things.scripts["prediction-worker"].uploads == 2


async def test_the_main_module_is_named_without_the_folder_it_was_in(api: CloudflareApi, tmp_path: Path) -> None:
    (tmp_path / "src" / "parts").mkdir(parents=True)
    (tmp_path / "src" / "worker.js").write_text('import "./parts/answer.js";\nexport default {};\n')
    (tmp_path / "src" / "parts" / "answer.js").write_text("export {};\n")
    modules = collect(tmp_path / "src" / "worker.js")
    wanted = edge(with_script=script(modules=modules, main_module=modules[0].name))

    await apply(api, wanted)

    assert api.things.scripts["prediction-worker"].metadata["main_module"] == "worker.js"
    assert set(api.things.scripts["prediction-worker"].modules) == {"worker.js", "parts/answer.js"}
    assert (await plan(api, wanted)).changes.steps == ()


async def test_what_stands_already_is_taken_over_without_being_made_anew(api: CloudflareApi) -> None:
    """The namespace by its title, the bucket by its name, the Worker when told."""
    await apply(api, edge())
    namespace, bucket = api.things.namespaces[0], api.things.buckets["prediction-bodies"]
    api.things.scripts["prediction-worker"].metadata |= {"tags": [], "annotations": {}}
    writes = len(api.writes)

    await apply(api, edge(), Permits(replace_script=True))

    assert api.things.namespaces == [namespace]
    assert api.things.buckets["prediction-bodies"] is bucket
    assert [call.path.rpartition("/")[2] for call in api.writes[writes:]] == [
        "assets-upload-session",
        "prediction-worker",
    ]


async def test_a_new_value_of_a_secret_is_one_upload_with_all_the_others_in_it(api: CloudflareApi) -> None:
    both = (Secret(name="UPSTREAM_KEY", text="1"), Secret(name="OTHER_KEY", text="2"))
    await apply(api, edge(with_script=script(secrets=both)))

    await apply(api, edge(with_script=script(secrets=(replace(both[0], text="3"), both[1]))))

    deployed = api.things.scripts["prediction-worker"]
    assert deployed.secrets == {"UPSTREAM_KEY": "3", "OTHER_KEY": "2"}
    assert deployed.uploads == 2


@pytest.mark.parametrize("lacking", ["Workers Routes Write", "Zone Read"])
async def test_what_a_domain_needs_is_checked_before_anything_is_written(api: CloudflareApi, lacking: str) -> None:
    api.things.tokens[TOKEN] = Token({p for p in ALL_PERMISSIONS if p != lacking} | {"API Tokens Read"})

    with pytest.raises(DeployForbidden, match=lacking.partition(" ")[0]):
        await apply(api, edge(**AT_HOST))

    assert api.writes == []


async def test_a_route_that_another_worker_got_meanwhile_is_not_stolen(api: CloudflareApi) -> None:
    api.things.add_script("their-worker")
    planned = await plan(api, edge())
    api.things.add_route("example.com/predict*", "their-worker")

    with pytest.raises(DeployError, match=r"\[10020\]; another Worker has this route: run `plan`, which names it"):
        await take(api, edge(), planned)
    with pytest.raises(DeployTaken, match="belongs to the Worker 'their-worker'"):
        await apply(api, edge())

    assert [route["script"] for route in api.things.routes.values()] == ["their-worker"]


async def test_ways_to_the_worker_that_are_not_described_stay_and_are_told(api: CloudflareApi) -> None:
    await apply(api, edge(**AT_HOST))
    api.things.add_route("example.com/by-hand*", "prediction-worker")
    elsewhere = edge(route=Route(zone_id=ZONE_ID, pattern="example.com/ask*"))

    await apply(api, elsewhere)
    notes = (await plan(api, elsewhere)).changes.notes

    assert [domain["hostname"] for domain in api.things.domains.values()] == ["ai.example.com"]
    assert {route["pattern"] for route in api.things.routes.values()} == {"example.com/by-hand*", "example.com/ask*"}
    assert [name for name in ("ai.example.com", "example.com/by-hand*") if any(name in n for n in notes)] == [
        "ai.example.com", "example.com/by-hand*",
    ]  # fmt: skip


async def test_an_export_tells_which_ways_wrangler_would_remove(api: CloudflareApi, tmp_path: Path) -> None:
    (tmp_path / "worker.js").write_text("export default {};\n")
    (tmp_path / "edge.toml").write_text(
        f'account_id = "{ACCOUNT_ID}"\nworker.entry = "worker.js"\n'
        f'[route]\nzone_id = "{ZONE_ID}"\npattern = "example.com/predict*"\n'
    )
    around = {"CLOUDFLARE_API_TOKEN": TOKEN, "CLOUDFLARE_API_BASE_URL": api.url}
    await run("deploy", "cloudflare", "apply", "--yes", "--no-try", home=tmp_path, **around)
    api.things.add_route("example.com/by-hand*", "prediction-worker")

    exported = await run("edge", "export", "wrangler", home=tmp_path, **around)

    assert exported.code == 0
    assert "the route example.com/by-hand* leads to this Worker too" in exported.err
    assert "would remove it" in exported.err


async def test_every_upload_sends_the_whole_set_of_bindings_and_inherits_strictly(api: CloudflareApi) -> None:
    await apply(api, edge())
    _set_by_hand(api, "BY_HAND", "set in the dashboard")

    await apply(api, edge(with_script=script(ai=None)))

    first, second = (_sent_bindings(api, at) for at in (0, 1))
    assert second == [b for b in first if b["name"] != "AI"] + [{"type": "inherit", "name": "BY_HAND"}]
    assert _uploads(api)[1].query == {"bindings_inherit": "strict"}


def _set_by_hand(api: CloudflareApi, name: str, text: str) -> None:
    deployed = api.things.scripts["prediction-worker"]
    deployed.bindings.append({"type": "secret_text", "name": name})
    deployed.secrets[name] = text


def _uploads(api: CloudflareApi) -> list[Call]:
    return [call for call in api.writes if call.method == "PUT" and call.path.endswith("/scripts/prediction-worker")]


def _sent_bindings(api: CloudflareApi, at: int = -1) -> list[dict[str, Any]]:
    told = re.search(rb'name="metadata"[^{]*(\{.*?\})\r\n--', _uploads(api)[at].body, re.S)
    assert told is not None
    found: list[dict[str, Any]] = json.loads(told[1])["bindings"]
    return found
