"""The Pulumi program of infra/ under Pulumi's mocks, each binding checked by the official SDK's types, and all of it
compared with what our own deployer puts into an account from the same description.

The engine and its provider are not here: what they would say of a diff or a replacement is not shown.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foretold.deploy import rules
from foretold.deploy.assets import collect_assets
from foretold.deploy.describing import describe
from foretold.deploy.settings import load_edge
from foretold.errors import ConfigError
from tests.edges import apply
from tests.fakes.cloudflare_api import ACCOUNT_ID, ZONE_ID, CloudflareApi
from tests.fakes.cloudflare_api.metadata import check_binding
from tests.fakes.cloudflare_api.things import Refusal

ROOT = Path(__file__).parents[2]
EVERYTHING = f"""
account_id = "{ACCOUNT_ID}"
variables = {{ ORIGIN_URL = "https://node.example" }}
secrets = {{ UPSTREAM_KEY = {{ env = "OPENAI_API_KEY" }} }}
[worker]
entry = "worker.js"
workers_dev = true
cached_entrypoints = ["Records"]
[route]
zone_id = "{ZONE_ID}"
pattern = "example.com/predict*"
[domain]
zone_id = "{ZONE_ID}"
hostname = "ai.example.com"
[r2]
bucket = "prediction-bodies"
[logs]
bucket = "prediction-logs"
expire_days = 7
[assets]
folder = "public"
[ai]
enabled = true
[rate_limit]
requests = 100
[analytics]
dataset = "outcomes"
"""
RECORDER = ROOT / "tests" / "fakes" / "pulumi_program.py"


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worker")
    (folder / "worker.js").write_text('import { answer } from "./parts/answer.js";\nexport default answer;\n')
    (folder / "parts").mkdir()
    (folder / "parts" / "answer.js").write_text("export const answer = {};\n")
    return folder / "worker.js"


def _config(entry: Path, **more: str) -> dict[str, str]:
    given = {
        "accountId": ACCOUNT_ID,
        "zoneId": ZONE_ID,
        "routePattern": "example.com/predict*",
        "entry": str(entry),
        "bucket": "prediction-bodies",
        "workersAi": "true",
        "secretNames": '["UPSTREAM_KEY"]',
        "UPSTREAM_KEY": "sk-of-the-upstream",
    }
    return {**given, **more}


def _run(config: dict[str, str], program: Path = ROOT / "infra" / "__main__.py") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RECORDER, program, json.dumps({"config": config, "secret": ["UPSTREAM_KEY"]})],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def recorded(entry: Path) -> dict[str, Any]:
    ended = _run(_config(entry))
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def _one(recorded: dict[str, Any], kind: str) -> dict[str, Any]:
    found = _all(recorded, kind)
    assert len(found) == 1
    return found[0]


def test_it_makes_each_resource_once_and_inside_of_the_component(recorded):
    kinds = sorted(r["type"].rpartition(":")[2] for r in recorded["resources"])

    assert kinds == [
        "R2Bucket", "R2BucketLifecycle", "WorkersKvNamespace", "WorkersRoute", "WorkersScript", "WorkersScriptSubdomain",
    ]  # fmt: skip
    assert {r["inside"] for r in recorded["resources"]} == {"predictions"}


def test_the_ids_that_the_account_gives_flow_on(recorded):
    bindings = {b["name"]: b for b in _one(recorded, "WorkersScript")["inputs"]["bindings"]["secret"]}

    assert bindings["PREDICTION_CACHE"]["namespaceId"] == "id-of-predictions-kv"
    assert bindings["PREDICTION_BODIES"]["bucketName"] == "prediction-bodies"
    assert _one(recorded, "WorkersRoute")["inputs"]["script"] == "prediction-worker"


def test_the_script_waits_for_its_stores_and_the_route_for_the_script(recorded):
    assert _one(recorded, "WorkersScript")["after"] == ["predictions-bucket", "predictions-kv"]
    assert _one(recorded, "WorkersRoute")["after"] == ["predictions-script"]


def test_it_exports_what_other_programs_need(recorded):
    assert recorded["exports"] == {
        "kv_namespace_id": "id-of-predictions-kv",
        "worker_script_name": "prediction-worker",
        "worker_route_pattern": "example.com/predict*",
    }


def test_secrets_stay_secret_on_their_whole_way(recorded):
    script = _one(recorded, "WorkersScript")
    elsewhere = json.dumps([recorded["exports"], *(r for r in recorded["resources"] if r is not script)])
    in_the_clear = {k: v for k, v in script["inputs"].items() if k != "bindings"}

    assert list(script["inputs"]["bindings"]) == ["secret"]
    assert "sk-of-the-upstream" in json.dumps(script["inputs"]["bindings"])
    assert "sk-of-the-upstream" not in elsewhere + json.dumps(in_the_clear)


@pytest.mark.parametrize("program", ["recorded", "of_file"])
def test_all_that_it_makes_keeps_the_apis_rules(program, request):
    _check_by_the_rules(request.getfixturevalue(program)["resources"])


@pytest.mark.parametrize(
    ("kind", "member", "wrong"),
    [
        ("WorkersRoute", "pattern", "example.com/*/predict"),
        ("WorkersRoute", "pattern", "example.com"),
        ("WorkersRoute", "zoneId", ZONE_ID[:-2]),
        ("WorkersCustomDomain", "hostname", "*.example.com"),
        ("WorkersCustomDomain", "zoneId", ZONE_ID.upper()),
        ("WorkersKvNamespace", "accountId", "my-account"),
        ("WorkersScript", "scriptName", "Prediction Worker"),
        ("WorkersScript", "compatibilityDate", "today"),
        ("R2Bucket", "name", "Prediction_Bodies"),
        ("WorkersScript", "bindings", {"type": "kv_namespace", "name": "K"}),
        ("WorkersScript", "bindings", {"type": "r2_bucket", "name": "PREDICTION_BODIES", "bucket": "x"}),
    ],
)
def test_what_breaks_one_of_these_rules_is_found(of_file, kind, member, wrong):
    broken = copy.deepcopy(of_file["resources"])
    found = next(r for r in broken if r["type"].endswith(f":{kind}"))
    if member == "bindings":
        found["inputs"]["bindings"]["secret"].append(wrong)
    else:
        found["inputs"][member] = wrong

    with pytest.raises((ConfigError, Refusal)):
        _check_by_the_rules(broken)


def _check_by_the_rules(resources: list[dict[str, Any]]) -> None:
    """Bindings by the official SDK's types, names, patterns and ids by our own linter.  Raises Refusal, ConfigError."""
    checks: dict[str, Callable[[str], None]] = {
        "accountId": lambda text: rules.check_id(text, "account"),
        "zoneId": lambda text: rules.check_id(text, "zone"),
        "pattern": rules.check_pattern,
        "hostname": rules.check_hostname,
        "scriptName": rules.check_script,
        "script": rules.check_script,
        "service": rules.check_script,
        "bucketName": rules.check_bucket,
        "title": rules.check_title,
        "compatibilityDate": rules.check_date,
    }
    for made in resources:
        kind, inputs = made["type"].rpartition(":")[2], made["inputs"]
        for member in inputs.keys() & checks.keys():
            checks[member](inputs[member])
        if kind == "R2Bucket":
            rules.check_bucket(inputs["name"])
        for binding in inputs["bindings"]["secret"] if kind == "WorkersScript" else ():
            check_binding(_snaked(binding))


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "kv_namespace", "name": "K"},
        {"type": "kv-namespace", "name": "K", "namespace_id": "1"},
        {"type": "r2_bucket", "name": "B", "bucket": "x"},
        {"type": "ratelimit", "name": "R", "namespace_id": "1", "simple": {"limit": 1, "period": 30}},
        {"type": "ai", "name": "AI", "model": "x"},
    ],
)
def test_a_wrong_binding_is_found_by_that_check(wrong):
    with pytest.raises(Refusal):
        check_binding(wrong)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"zoneId": ZONE_ID[:-2]}, "the zone id has 30 characters"),
        ({"routePattern": "example.com/*/predict"}, r"has a \* inside its path"),
        ({"secretNames": '["AI"]', "AI": "x"}, "two bindings are named 'AI'"),
    ],
)
def test_a_wrong_setting_ends_the_program_with_what_would_be_right(entry, more, says):
    ended = _run(_config(entry, **more))

    assert ended.returncode != 0
    assert re.search(says, ended.stderr)


def test_without_an_entry_it_asks_for_the_secret_that_our_own_worker_needs(entry):
    given = {**_config(entry), "entry": "", "settings": '{"cache":{"fresh":"24h"}}'}

    missing = _run(given)
    ended = _run({**given, "FORETOLD_SECRET": "5" * 64})

    assert missing.returncode != 0
    assert "foretold-edge:FORETOLD_SECRET" in missing.stderr
    script = _one(json.loads(ended.stdout), "WorkersScript")["inputs"]
    bindings = {b["name"]: b for b in script["bindings"]["secret"]}
    assert script["mainModule"] == "prediction_worker.js"
    assert bindings["FORETOLD_SECRET"]["type"] == "secret_text"
    assert bindings["FORETOLD_SETTINGS"]["text"] == '{"cache":{"fresh":"24h"}}'


def test_the_program_that_the_guide_shows_makes_what_it_says(tmp_path):
    guide = (ROOT / "docs" / "guides" / "deploy-to-cloudflare.md").read_text()
    shown = re.search(r"```python\n(import pulumi\n.*?)```", guide, re.S)
    assert shown is not None
    (tmp_path / "program.py").write_text(shown[1])

    ended = _run(
        {"accountId": ACCOUNT_ID, "zoneId": ZONE_ID, "FORETOLD_SECRET": "5" * 64}, program=tmp_path / "program.py"
    )

    told = json.loads(ended.stdout)
    _check_by_the_rules(told["resources"])
    assert _one(told, "WorkersRoute")["inputs"]["pattern"] == "example.com/predict*"
    assert told["exports"] == {"kv_namespace_id": "id-of-predictions-kv"}
    assert "5" * 64 not in json.dumps([r for r in told["resources"] if not r["type"].endswith(":WorkersScript")])


def test_a_secret_in_the_description_itself_is_refused(entry, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from foretold.deploy.pulumi import EdgePredictions\n"
        "from tests.edges import edge\n"
        "EdgePredictions('predictions', edge())\n"
    )

    ended = subprocess.run(
        [sys.executable, RECORDER, program, '{"config": {}}'],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert "carries secrets in the clear" in ended.stderr


@pytest.fixture(scope="module")
def of_file(entry: Path) -> dict[str, Any]:
    """What the program makes of the edge.toml beside the entry, which has all there is."""
    (entry.parent / "edge.toml").write_text(EVERYTHING)
    (entry.parent / "public").mkdir()
    (entry.parent / "public" / "index.html").write_text("<h1>Ask</h1>\n")
    ended = _run({"edgeFile": str(entry.parent / "edge.toml"), "UPSTREAM_KEY": "sk-of-the-upstream"})
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


async def test_it_makes_the_same_as_our_own_deployer(of_file, entry, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-upstream")
    described = describe(load_edge(entry.parent / "edge.toml"), folder=entry.parent)
    async with CloudflareApi() as api:
        await apply(api, described)
    ours, theirs = api.things.scripts["prediction-worker"], _one(of_file, "WorkersScript")["inputs"]
    namespace = api.things.namespace("PredictionCache")

    assert [
        {**b, "text": ours.secrets[b["name"]]} if b["type"] == "secret_text" else b for b in _by_name(ours.bindings)
    ] == _by_name(
        {**b, "namespace_id": namespace.id} if b["type"] == "kv_namespace" else b
        for b in map(_snaked, theirs["bindings"]["secret"])
    )
    assert len({b["type"] for b in ours.bindings}) == 8
    assert {name: content for name, (_, content) in ours.modules.items()} == {
        theirs["mainModule"]: Path(theirs["contentFile"]).read_bytes(),
        **{name: base64.b64decode(file["contentBase64"]) for name, file in theirs["files"].items()},
    }
    for member in ("main_module", "compatibility_date", "compatibility_flags", "observability"):
        assert ours.metadata[member] == theirs[_cameled(member)]
    assert {
        f.path: (f.content_type, f.content) for f in collect_assets(Path(theirs["assets"]["directory"]))
    } == ours.assets
    assert theirs["exports"] == ours.metadata["exports"] == {"Records": {"type": "worker", "cache": {"enabled": True}}}
    assert _snaked(theirs["cacheOptions"]) == ours.metadata["cache_options"]
    assert _snaked(theirs["assets"]["config"]) == ours.metadata["assets_config"]
    assert _one(of_file, "WorkersKvNamespace")["inputs"]["title"] == namespace.title
    rules = {r["inputs"]["bucketName"]: r["inputs"]["rules"][0] for r in _all(of_file, "R2BucketLifecycle")}
    assert {r["inputs"]["name"] for r in _all(of_file, "R2Bucket")} == api.things.buckets.keys() == rules.keys()
    assert all(rule in api.things.buckets[name].lifecycle for name, rule in rules.items())
    assert [(r["pattern"], r["script"], r["zone_id"]) for r in api.things.routes.values()] == [
        tuple(_one(of_file, "WorkersRoute")["inputs"][name] for name in ("pattern", "script", "zoneId"))
    ]
    assert [(d["hostname"], d["service"], d["zone_id"]) for d in api.things.domains.values()] == [
        tuple(_one(of_file, "WorkersCustomDomain")["inputs"][name] for name in ("hostname", "service", "zoneId"))
    ]
    switch = _one(of_file, "WorkersScriptSubdomain")["inputs"]
    assert (ours.on_workers_dev, ours.has_previews) == (switch["enabled"], switch["previewsEnabled"])
    assert switch["enabled"] is True


def _all(recorded: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [r for r in recorded["resources"] if r["type"].endswith(f":{kind}")]


def _cameled(name: str) -> str:
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), name)


def _by_name(bindings: Any) -> list[dict[str, Any]]:
    return sorted(bindings, key=lambda b: str(b["name"]))


def _snaked(binding: dict[str, Any]) -> dict[str, Any]:
    """As the API has it: recorded inputs are in camel case."""
    return {re.sub(r"[A-Z]", lambda m: f"_{m[0].lower()}", name): value for name, value in binding.items()}
