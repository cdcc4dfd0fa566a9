from __future__ import annotations

import pytest

from foretold.deploy.describing import describe, describe_without_secrets
from foretold.deploy.settings import load_edge_text
from foretold.errors import ConfigError
from tests.fakes.cloudflare_api import ACCOUNT_ID, ZONE_ID

FULL = f"""
account_id = "{ACCOUNT_ID}"
variables = {{ ORIGIN_URL = "https://node.example" }}
secrets = {{ UPSTREAM_KEY = {{ env = "OPENAI_API_KEY" }} }}
[settings.cache]
fresh = "24h"
[worker]
entry = "worker.js"
[route]
zone_id = "{ZONE_ID}"
pattern = "example.com/predict*"
[r2]
bucket = "prediction-bodies"
expire_days = 7
[ai]
enabled = true
[rate_limit]
requests = 100
[analytics]
dataset = "outcomes"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "worker.js").write_text("export default {};\n")
    return tmp_path


def test_a_file_becomes_a_description(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    edge = describe(load_edge_text(FULL, name="edge.toml"), folder=folder)

    assert edge.account_id == ACCOUNT_ID
    assert edge.route is not None
    assert edge.route.pattern == "example.com/predict*"
    assert edge.script.name == "prediction-worker"
    assert edge.script.kv.title == "PredictionCache"
    assert edge.script.bucket is not None
    assert edge.script.bucket.expire_days == 7
    assert [s.text for s in edge.script.secrets] == ["sk-test"]
    assert {v.name: v.text for v in edge.script.variables} == {
        "ORIGIN_URL": "https://node.example",
        "FORETOLD_SETTINGS": '{"cache":{"fresh":"24h"}}',
    }
    assert edge.script.compatibility_flags == ("enable_request_signal",)


def test_what_is_not_named_is_not_bound(folder):
    least = f'account_id = "{ACCOUNT_ID}"\n[worker]\nentry = "worker.js"\nworkers_dev = true\n'

    edge = describe(load_edge_text(least, name="edge.toml"), folder=folder)

    assert (edge.script.bucket, edge.script.ai, edge.script.rate_limit, edge.script.analytics) == (None,) * 4
    assert edge.route is edge.domain is None


def test_the_account_may_come_from_the_environment(folder, monkeypatch):
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", ACCOUNT_ID)
    settings = load_edge_text('[worker]\nentry = "worker.js"\nworkers_dev = true\n', name="edge.toml")

    assert describe(settings, folder=folder).account_id == ACCOUNT_ID


def test_a_secret_that_is_not_at_hand_is_missed_only_where_it_is_sent(folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = load_edge_text(FULL, name="edge.toml")

    assert describe_without_secrets(settings, folder=folder).script.secrets == ()
    with pytest.raises(
        ConfigError, match="secret UPSTREAM_KEY is not at hand: the environment variable OPENAI_API_KEY"
    ):
        describe(settings, folder=folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[worker]\nnmae = "x"\n', r"edge\.toml:2: worker\.nmae: unknown setting; did you mean `name`"),
        ('[route]\npattern = "example.com/*"\n', "`zone_id` is missing: both are needed"),
        (f'[domain]\nzone_id = "{ZONE_ID}"\n', "`hostname` is missing"),
        ("[r2]\nexpire_days = 0\n", "whole number from 1 to 3650"),
        ("variables = { A = 1 }\n", "give a table of texts"),
        ("[settings.cache]\nsince = 2026-01-01\n", "knows no dates"),
        ('[worker]\ncompatibility_flags = "x"\n', "give a list of texts"),
    ],
)
def test_a_mistake_is_told_with_its_line(text, says):
    with pytest.raises(ConfigError, match=says):
        load_edge_text(text, name="edge.toml")


@pytest.mark.parametrize("text", ['secrets = "sk-private"', 'secrets = { K = "sk-private" }'])
def test_a_secret_written_into_the_file_is_refused_and_not_repeated(text):
    with pytest.raises(ConfigError, match="env") as told:
        load_edge_text(text, name="edge.toml")

    assert "sk-private" not in str(told.value)


def test_the_worker_that_comes_with_this_program_needs_a_secret_and_another_none(folder):
    named = f'account_id = "{ACCOUNT_ID}"\nworker.workers_dev = true\n'
    ours = load_edge_text(named, name="edge.toml")
    another = load_edge_text(f'{named}worker.entry = "worker.js"\n', name="edge.toml")

    assert describe(ours, folder=folder).script.needs == ("FORETOLD_SECRET",)
    assert describe(another, folder=folder).script.needs == ()


def test_workers_cache_stands_before_the_one_entrypoint_of_our_own_worker_that_asks_for_it(folder):
    named = f'account_id = "{ACCOUNT_ID}"\nworker.workers_dev = true\n'
    asked = load_edge_text(f"{named}settings.cache.workers_cache = true\n", name="edge.toml")
    silent = load_edge_text(named, name="edge.toml")

    assert describe(asked, folder=folder).script.cached_entrypoints == ("Records",)
    assert describe(silent, folder=folder).script.cached_entrypoints == ()
