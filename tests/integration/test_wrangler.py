"""`foretold edge export wrangler`, taken by wrangler 4.86 itself: what it sends is what we send."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from foretold.deploy.plan import Domain, Module
from foretold.deploy.wrangler import wrangler_config
from foretold.errors import ConfigError, DeployTaken
from tests.e2e.program import run
from tests.edges import apply, edge, script
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, ZONE_ID, CloudflareApi

WRANGLER = Path(__file__).parents[1] / "wrangler" / "node_modules" / ".bin" / "wrangler"
EDGE = f"""
account_id = "{ACCOUNT_ID}"
secrets = {{ UPSTREAM_KEY = {{ env = "OPENAI_API_KEY" }} }}
[worker]
entry = "src/worker.js"
[settings.cache]
fresh = "24h"
[route]
zone_id = "{ZONE_ID}"
pattern = "example.com/*"
[r2]
bucket = "prediction-bodies"
[ai]
enabled = true
[rate_limit]
requests = 100
[analytics]
dataset = "outcomes"
[logs]
bucket = "prediction-logs"
[assets]
folder = "public"
"""


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src" / "parts").mkdir(parents=True)
    (tmp_path / "edge.toml").write_text(EDGE)
    (tmp_path / "src" / "worker.js").write_text('import { answer } from "./parts/answer.js";\nexport default answer;\n')
    (tmp_path / "src" / "parts" / "answer.js").write_text("export const answer = { fetch: () => new Response() };\n")
    (tmp_path / "public" / "more").mkdir(parents=True)
    (tmp_path / "public" / "index.html").write_text("<h1>Ask</h1>\n")
    (tmp_path / "public" / "more" / "a b.css").write_text("h1 {}\n")
    (tmp_path / "public" / "logo.svg").write_text("<svg/>\n")
    (tmp_path / "src" / "unused.js").write_text("this is no JavaScript\n")
    return tmp_path


def _around(api: CloudflareApi) -> dict[str, str]:
    return {"CLOUDFLARE_API_TOKEN": TOKEN, "CLOUDFLARE_API_BASE_URL": api.url, "OPENAI_API_KEY": "sk-of-a-test"}


async def _wrangler(api: CloudflareApi, folder: Path, *words: str) -> str:
    """What it printed.  Fails unless it ended well."""
    process = await asyncio.create_subprocess_exec(
        WRANGLER,
        *words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "CI": "1", "NO_COLOR": "1", **_around(api)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, out.decode()
    return out.decode()


def _config(text: str) -> Any:
    return json.loads(re.sub(r"^//.*\n", "", text, flags=re.M))


async def test_wrangler_sends_what_our_own_deployer_sends(api, folder):
    applied = await run("deploy", "cloudflare", "apply", "--yes", "--no-try", home=folder, **_around(api))
    exported = await run("edge", "export", "wrangler", "--output", "wrangler.jsonc", home=folder, **_around(api))
    assert (applied.code, exported.code) == (0, 0), applied.err + exported.err
    ours = api.things.scripts.pop("prediction-worker")
    our_routes = list(api.things.routes.values())
    api.things.routes.clear()

    await _wrangler(api, folder, "deploy")

    theirs = api.things.scripts["prediction-worker"]
    assert _by_name(theirs.bindings) == [b for b in _by_name(ours.bindings) if b["type"] != "secret_text"]
    assert theirs.modules == ours.modules
    for member in ("main_module", "compatibility_date", "compatibility_flags", "observability"):
        assert theirs.metadata[member] == ours.metadata[member]
    assert theirs.assets == ours.assets
    assert theirs.metadata["assets_config"] == ours.metadata["assets_config"]
    assert list(api.things.routes.values()) == our_routes
    assert (theirs.on_workers_dev, theirs.has_previews) == (ours.on_workers_dev, ours.has_previews)


async def test_a_dry_run_takes_the_file_and_only_the_files_that_the_entry_reaches(api, folder):
    exported = await run(
        "edge", "export", "wrangler", "--kv-namespace-id", "0f2ac74b498b48028cb68387c421e279", home=folder
    )
    (folder / "wrangler.jsonc").write_text(exported.out)

    said = await _wrangler(api, folder, "deploy", "--dry-run", "--outdir", "out")

    assert "env.PREDICTION_CACHE (0f2ac74b498b48028cb68387c421e279)" in said
    assert {p.relative_to(folder / "out").as_posix() for p in (folder / "out").rglob("*.js")} == {
        "worker.js",
        "parts/answer.js",
    }
    assert "WARNING" not in said
    assert api.calls == []


async def test_no_secret_is_in_the_file_and_each_is_named(folder):
    exported = await run(
        "edge",
        "export",
        "wrangler",
        "--kv-namespace-id",
        "0f2ac74b498b48028cb68387c421e279",
        home=folder,
        OPENAI_API_KEY="sk-of-a-test",
    )

    assert "wrangler secret put UPSTREAM_KEY" in exported.out
    assert "sk-of-a-test" not in exported.out
    assert _config(exported.out)["vars"] == {"FORETOLD_SETTINGS": '{"cache":{"fresh":"24h"}}'}


async def test_before_the_first_apply_there_is_no_id_to_export(api, folder):
    exported = await run("edge", "export", "wrangler", home=folder, **_around(api))

    assert exported.code == 1
    assert "apply first, or give --kv-namespace-id" in exported.err


async def test_a_namespace_id_that_is_none_is_refused(folder):
    exported = await run("edge", "export", "wrangler", "--kv-namespace-id", "PredictionCache", home=folder)

    assert exported.code == 3
    assert "the KV namespace id is 'PredictionCache'" in exported.err


def test_a_domain_is_a_route_of_its_own_kind():
    told = wrangler_config(
        edge(route=None, domain=Domain(zone_id=ZONE_ID, hostname="ai.example.com")),
        main="src/prediction_worker.js",
        kv_namespace_id="1",
        assets_folder="public",
    )

    assert told["routes"] == [{"pattern": "ai.example.com", "custom_domain": True, "zone_id": ZONE_ID}]


def test_modules_of_other_kinds_get_rules_of_their_own():
    wasm = Module(name="model.wasm", content=b"", content_type="application/wasm")
    modules = (*script().modules, wasm)

    told = wrangler_config(
        edge(with_script=script(modules=modules, assets=None)), main="prediction_worker.js", kv_namespace_id="1"
    )

    assert {"type": "CompiledWasm", "globs": ["model.wasm"], "fallthrough": False} in told["rules"]


def test_an_entry_that_is_not_the_main_module_is_refused():
    with pytest.raises(ConfigError, match="is not the main module"):
        wrangler_config(edge(), main="src/other.js", kv_namespace_id="1")


def _by_name(bindings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(bindings, key=lambda b: str(b["name"]))


async def test_what_wrangler_deployed_is_not_ours_and_not_replaced_untold(api):
    await apply(api, edge())
    api.things.scripts["prediction-worker"].metadata.update(tags=[], annotations={})

    with pytest.raises(DeployTaken, match="--replace-script"):
        await apply(api, edge())


def test_workers_cache_before_one_entrypoint_is_refused_since_wrangler_knows_none():
    cached = edge(with_script=script(cached_entrypoints=("Records",)))

    with pytest.raises(ConfigError, match="can't turn Workers Cache on for one entrypoint"):
        wrangler_config(cached, main="prediction_worker.js", kv_namespace_id="1")
