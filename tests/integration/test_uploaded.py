"""What apply uploads is run in workerd with the bindings that it got, behind the route that leads there, and asked as
callers ask: the Worker that comes with this program, and one of a test's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.program import Finished, run
from tests.fakes.cloudflare_api import ACCOUNT_ID, TOKEN, ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.front import Front
from tests.fakes.upstream import FakeUpstream

ADMIN_TOKEN = "a" * 64
SECRETS = """
secrets = { FORETOLD_SECRET = { env = "EDGE_SECRET" }, FORETOLD_ADMIN_TOKEN = { env = "EDGE_TOKEN" }, KEY = { env = "KEY" } }
"""
REACHED = f"""
[route]
zone_id = "{ZONE_ID}"
pattern = "example.com/*"
[r2]
bucket = "prediction-bodies"
[logs]
bucket = "prediction-logs"
[analytics]
dataset = "outcomes"
[rate_limit]
requests = 100
[assets]
folder = "public"
"""


@pytest.fixture
async def api() -> AsyncIterator[CloudflareApi]:
    async with CloudflareApi() as running:
        yield running


@pytest.fixture
async def front(api: CloudflareApi, tmp_path: Path) -> AsyncIterator[Front]:
    async with Front(api, tmp_path / "front") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, upstream: FakeUpstream) -> Path:
    """With an edge.toml of everything, in front of a scripted upstream."""
    settings = f"""
[settings.upstreams.there]
url = "{upstream.url}"
key = {{ env = "KEY" }}
[[settings.routes]]
name = "all"
models = ["gpt-4.1-mini", "*"]
upstream = "there"
"""
    (tmp_path / "edge.toml").write_text(f'account_id = "{ACCOUNT_ID}"\n{SECRETS}{REACHED}{settings}')
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "index.html").write_text("<h1>Ask</h1>\n")
    (tmp_path / "public" / "style.css").write_text("h1 {}\n")
    return tmp_path


async def _deploy(api: CloudflareApi, front: Front, folder: Path, *words: str, **more: str) -> Finished:
    around = {"CLOUDFLARE_API_TOKEN": TOKEN, "CLOUDFLARE_API_BASE_URL": api.url, **front.environment()}
    given = {"EDGE_SECRET": "5" * 64, "EDGE_TOKEN": ADMIN_TOKEN, "KEY": "sk-of-the-upstream"}
    return await run("deploy", "cloudflare", *words, home=folder, **{**around, **given, **more})


async def test_apply_ends_with_the_self_test_and_a_miss_and_then_a_hit_of_the_very_upload(api, front, folder, upstream):
    applied = await _deploy(api, front, folder, "apply", "--yes")

    told = [line.split("\t") for line in applied.out.splitlines() if "\t" in line]
    assert applied.code == 0, applied.out + applied.err
    tried = next(words[1].split(", ") for words in told if words[0] == "self-test")
    assert {"kv ok", "r2 ok", "cache ok", "ai off"} <= set(tried)
    assert [words[0] for words in told][-2:] == ["MISS", "HIT"]
    assert ["files", "2 looked at"] in told
    assert len(upstream.calls) == 1
    # The answer was kept in the very namespace that was made.
    assert any(key.startswith("foretold/1/") for key in api.things.namespace("PredictionCache").values)


async def test_a_route_of_predictions_alone_is_asked_for_one(api, front, folder):
    _edit(folder, 'pattern = "example.com/*"', 'pattern = "example.com/predict*"')

    applied = await _deploy(api, front, folder, "apply", "--yes", "--json")
    by_hand = await _deploy(api, front, folder, "try", "another-model")

    assert [seen["how"] for seen in applied.json["trial"]["seen"]] == ["miss", "hit"]
    assert applied.json["trial"]["untried"] == ["the Worker's self-test: the route does not catch /-/selftest"]
    assert [line.split("\t")[0] for line in by_hand.out.splitlines()] == ["MISS", "HIT"]


async def test_on_workers_dev_it_is_asked_at_its_name_there(api, front, folder):
    _edit(folder, f'[route]\nzone_id = "{ZONE_ID}"\npattern = "example.com/*"\n', "[worker]\nworkers_dev = true\n")

    applied = await _deploy(api, front, folder, "apply", "--yes", "--json")

    assert applied.code == 0, applied.out + applied.err
    assert applied.json["trial"]["url"] == "https://prediction-worker.quiet-field.workers.dev"
    assert [seen["how"] for seen in applied.json["trial"]["seen"]] == ["miss", "hit"]


async def test_the_next_upload_runs_with_what_was_changed(api, front, folder):
    _edit(folder, "[assets]", '[trial]\nmodel = "gpt-4.1-mini"\n[assets]')
    first = await _deploy(api, front, folder, "apply", "--yes")
    _edit(folder, 'models = ["gpt-4.1-mini", "*"]', 'models = ["another-model"]')

    applied = await _deploy(api, front, folder, "apply", "--yes")

    assert (first.code, applied.code) == (0, 8), first.out + first.err
    assert "WRONG\tthe edge answered 404" in applied.out


async def test_a_question_that_fails_is_told_and_the_deployment_stays(api, front, folder, upstream):
    await upstream.refuse()

    applied = await _deploy(api, front, folder, "apply", "--yes")

    assert applied.code == 8
    assert "WRONG\tthe edge answered 502" in applied.out
    assert "kv_namespace_id" in applied.out
    assert "sk-of-the-upstream" not in applied.out + applied.err
    assert "prediction-worker" in api.things.scripts


def _edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "edge.toml").read_text()
    assert old in text
    (folder / "edge.toml").write_text(text.replace(old, new))


async def test_what_the_account_serves_instead_of_a_file_is_found(api, front, folder):
    await _deploy(api, front, folder, "apply", "--yes", "--no-try")
    script = api.things.scripts["prediction-worker"]
    script.assets["/style.css"] = ("text/css; charset=utf-8", b"an older one\n")
    _edit(folder, "requests = 100", "requests = 99")
    api.things.kept_assets.update(
        {d: script.assets["/style.css"] for d, (_, c) in api.things.kept_assets.items() if c == b"h1 {}\n"}
    )

    applied = await _deploy(api, front, folder, "apply", "--yes", "--json")

    assert applied.code == 8
    assert [w for w in applied.json["trial"]["wrong"] if w.startswith("/style.css is not served as it was uploaded")]
