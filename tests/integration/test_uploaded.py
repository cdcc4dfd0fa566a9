"""What apply uploads is run in workerd with the bindings that it got, and asked as `deploy cloudflare try` asks.

The Worker here is a small one of the test, in modules that import each other; it keeps its answers in KV.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from foretold.deploy.modules import collect
from foretold.deploy.plan import RateLimit, Variable
from tests.e2e.program import run
from tests.edges import apply, edge, script
from tests.fakes.cloudflare_api import CloudflareApi, Script

RUNNER = Path(__file__).parents[1] / "wrangler" / "run_uploaded.mjs"
ENTRY = """
import { nameOf } from "./parts/naming.js";

export default {
  async fetch(request, env) {
    const { success } = await env.RATE_LIMIT.limit({ key: "anyone" });
    if (!success) return new Response("too many", { status: 429 });
    const name = await nameOf(await request.text() + env.ORIGIN_URL + env.UPSTREAM_KEY);
    const kept = await env.PREDICTION_CACHE.get(name);
    if (kept === null) await env.PREDICTION_CACHE.put(name, "{}", { expirationTtl: 60 });
    const how = kept === null ? "fwd=uri-miss; stored" : "hit";
    return new Response("{}", { headers: { "cache-status": `Foretold-Edge; ${how}` } });
  },
};
"""
NAMING = """
export async function nameOf(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
"""


@asynccontextmanager
async def _in_workerd(deployed: Script, folder: Path) -> AsyncIterator[str]:
    """The address of the very modules and bindings of an upload."""
    for name, (_, content) in deployed.modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    of_kind = {b["type"]: b for b in deployed.bindings}
    limit = of_kind["ratelimit"]
    texts = {b["name"]: b["text"] for b in deployed.bindings if b["type"] == "plain_text"}
    told = {
        **{name: deployed.metadata[name] for name in ("main_module", "compatibility_date", "compatibility_flags")},
        "modules": list(deployed.modules),
        "texts": {**texts, **deployed.secrets},
        "kv": {of_kind["kv_namespace"]["name"]: of_kind["kv_namespace"]["namespace_id"]},
        "r2": {of_kind["r2_bucket"]["name"]: of_kind["r2_bucket"]["bucket_name"]},
        "ratelimits": {limit["name"]: {"simple": limit["simple"]}},
    }
    (folder / "upload.json").write_text(json.dumps(told))
    process = await asyncio.create_subprocess_exec(
        "node", RUNNER, folder, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert line, "workerd did not start"
        yield line
    finally:
        await asyncio.wait_for(process.communicate(b""), 60)


async def test_the_worker_of_an_upload_answers_a_miss_and_then_a_hit(tmp_path):
    (tmp_path / "src" / "parts").mkdir(parents=True)
    (tmp_path / "src" / "worker.js").write_text(ENTRY)
    (tmp_path / "src" / "parts" / "naming.js").write_text(NAMING)
    modules = collect(tmp_path / "src" / "worker.js")
    variables = (Variable(name="ORIGIN_URL", text="https://node.example"),)
    wanted = script(
        main_module="worker.js", modules=modules, ai=None, rate_limit=RateLimit(requests=3), variables=variables
    )
    async with CloudflareApi() as api:
        await apply(api, edge(with_script=wanted))
        deployed = api.things.scripts["prediction-worker"]

    async with _in_workerd(deployed, tmp_path / "run") as url:
        asked = await run("deploy", "cloudflare", "try", "any-model", "--url", url, home=tmp_path)
        third = await run("deploy", "cloudflare", "try", "any-model", "--url", url, home=tmp_path)

    assert asked.code == 0, asked.err
    assert [line.split("\t")[0] for line in asked.out.splitlines()] == ["MISS", "HIT"]
    # The limit that was described holds: three requests, then 429.
    assert "answered 429" in third.err
