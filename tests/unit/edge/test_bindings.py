"""The Worker on this machine makes the node's keys: its models' revisions, its tenants, its lifetimes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foretold.config import load
from foretold.deploy.settings import load_edge_text
from foretold.edge.bindings import Model, NodeFace, ai_of, models_in, settings_for, worker_of
from foretold.errors import EdgeError

OWN = NodeFace("http://127.0.0.1:3673", "", (Model("small", "r1"), Model("gpt", "")))
NONE = NodeFace("http://127.0.0.1:3673", "", (Model("gpt", ""),))
API_KEY = f'[[api_keys]]\ntenant = "web"\nsha256 = "{"0" * 64}"\n'


def worker(node=OWN, config="", edge=None, folder=Path()):
    settings = None if edge is None else load_edge_text(edge, name="edge.toml")
    return worker_of(node, load(config), settings, folder=folder, secret=bytes(32), admin_token="admin")


def test_a_model_of_the_node_has_its_revision_in_the_route():
    routes = {route["name"]: route for route in settings_for(OWN, load(""))["routes"]}

    assert routes["small"]["revision"] == "r1"
    assert routes["small"]["models"] == ["small"]
    assert routes["all-else"]["models"] == ["*"]


def test_routes_to_upstreams_have_the_revision_that_the_node_keys_by_and_their_scope():
    config = (
        '[upstreams.u]\nurl = "http://127.0.0.1:9"\n'
        '[[routes]]\nname = "help"\nmodels = ["help-*"]\nupstream = "u"\nscope = "shared"\n'
        '[[routes]]\nname = "all"\nmodels = ["*"]\nupstream = "u"\nrevision = "v2"\n'
        '[[routes]]\nname = "classify"\nkind = "json"\npath = "/classify"\nupstream = "u"\n'
    )
    routes = settings_for(NONE, load(config))["routes"]

    assert [(r["name"], r.get("revision"), r.get("scope"), r.get("pass_credential")) for r in routes] == [
        ("help", "help", "shared", None),
        ("all", "v2", None, True),
        ("all-else", None, None, True),
    ]


def test_a_route_that_an_edge_cannot_have_is_left_to_the_node():
    config = (
        '[upstreams.u]\nurl = "http://127.0.0.1:9"\n'
        '[[routes]]\nname = "renamed"\nmodels = ["mine"]\nupstream = "u"\nupstream_model = "theirs"\n'
    )

    assert [route["name"] for route in settings_for(NONE, load(config))["routes"]] == ["all-else"]


def test_models_of_workers_ai_are_answered_by_the_nodes_own_and_only_if_it_has_one():
    assert settings_for(OWN, load(""))["routes"][0] == {
        "name": "workers-ai",
        "models": ["@cf/*"],
        "upstream": "workers-ai",
    }
    assert ai_of(OWN) == {"url": "http://127.0.0.1:3673", "model": "small", "key": ""}
    assert "workers-ai" not in settings_for(NONE, load(""))["upstreams"]
    assert ai_of(NONE) is None


def test_where_the_node_has_api_keys_the_edge_has_them_and_asks_with_one_of_its_own():
    node = NodeFace(OWN.url, "a key", OWN.models)
    settings = settings_for(node, load(API_KEY))
    bound = worker(node, API_KEY)["bindings"]

    assert settings["api_keys"] == [{"tenant": "web", "sha256": "0" * 64}]
    assert settings["upstreams"]["node"]["key"] == {"env": "NODE_KEY"}
    assert not any("pass_credential" in route for route in settings["routes"])
    assert bound["NODE_KEY"] == "a key"
    assert "a key" not in bound["FORETOLD_SETTINGS"]


def test_where_it_has_none_the_callers_credential_goes_on_to_it():
    routes = settings_for(OWN, load(""))["routes"]

    assert [r["pass_credential"] for r in routes if r["upstream"] == "node"] == [True, True]


def test_lifetimes_are_the_nodes():
    settings = settings_for(OWN, load('[cache]\nfresh = "1h"\n'))

    assert settings["cache"] == {"fresh": "3600s", "stale_while_revalidate": "86400s", "stale_if_error": "604800s"}


def test_a_described_worker_runs_with_its_own_settings_and_secrets_but_the_nodes_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("UPSTREAM", "sk-1")
    (tmp_path / "mine.js").write_text("export default {};\n")
    told = worker(
        edge='variables = { A = "b" }\n'
        'secrets = { UPSTREAM_KEY = { env = "UPSTREAM" }, FORETOLD_SECRET = { env = "NEVER_SET" } }\n'
        'settings = { undeclared = "off" }\n[worker]\nentry = "mine.js"\n',
        folder=tmp_path,
    )

    assert (told["root"], told["entry"], told["page"]) == (str(tmp_path), "mine.js", None)
    assert told["bindings"]["A"] == "b"
    assert told["bindings"]["UPSTREAM_KEY"] == "sk-1"
    assert told["bindings"]["FORETOLD_SECRET"] == "00" * 32
    assert json.loads(told["bindings"]["FORETOLD_SETTINGS"]) == {"undeclared": "off"}


def test_a_secret_that_is_not_at_hand_is_named():
    with pytest.raises(EdgeError, match=r"the secret KEY of edge\.toml: the environment variable NEVER_SET is not set"):
        worker(edge='secrets = { KEY = { env = "NEVER_SET" } }\n')


@pytest.mark.parametrize("told", [None, [], {}, {"data": {}}, {"data": [{"name": "x"}]}])
def test_what_is_no_list_of_models_is_refused(told):
    with pytest.raises(EdgeError, match="no list of models"):
        models_in(told)
