"""What the Worker on this machine is given: settings and secrets of its own, made from the node's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretold.assemble import written_routes
from foretold.config.settings import Config
from foretold.deploy.describing import bundled_entry, page_folder
from foretold.deploy.settings import EdgeSettings
from foretold.errors import EdgeError

ACCOUNT, NAMESPACE = "local", "PredictionCache"
SETTINGS, SECRET, ADMIN = "FORETOLD_SETTINGS", "FORETOLD_SECRET", "FORETOLD_ADMIN_TOKEN"
NODE_KEY = "NODE_KEY"
# Names of models as Workers AI has them.
OF_WORKERS_AI = "@cf/*"
REST = "all-else"


@dataclass(frozen=True, slots=True)
class Model:
    """One that the node names; `revision` is that of a model which the node runs itself, else empty."""

    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class NodeFace:
    """What the edge must know of its node: its address, a key for it if it wants one, and its models."""

    url: str
    key: str
    models: tuple[Model, ...]

    @property
    def own_model(self) -> str | None:
        """The model that stands in for Workers AI."""
        return next((model.name for model in self.models if model.revision), None)


def models_in(told: Any) -> tuple[Model, ...]:
    """The models of a list as `GET /v1/models` tells it.  Raises EdgeError if it is none."""
    rows = told.get("data") if isinstance(told, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
        raise EdgeError("what answers there tells no list of models: is it a Foretold node?")
    return tuple(Model(row["id"], str(row.get("revision") or "")) for row in rows)


def settings_for(node: NodeFace, config: Config) -> dict[str, Any]:
    """The Worker's settings in front of a node: the node's own keys, lifetimes, routes and revisions.

    So both make the same key of the same question, and show each other's answers.  Declared routes, and those that
    choose by language or rename a model, are the node's alone: what they take goes on to it.
    """
    cache = config.cache
    upstreams: dict[str, Any] = {"node": {"url": f"{node.url}/v1", **({"key": {"env": NODE_KEY}} if node.key else {})}}
    routes = _routes(node, config)
    if node.own_model is not None:
        upstreams["workers-ai"] = {"speaks": "workers_ai"}
        routes.insert(0, {"name": "workers-ai", "models": [OF_WORKERS_AI], "upstream": "workers-ai"})
    settings = {
        "cache": {
            "fresh": f"{cache.fresh}s",
            "stale_while_revalidate": f"{cache.stale_while_revalidate}s",
            "stale_if_error": f"{cache.stale_if_error}s",
        },
        "upstreams": upstreams,
        "routes": routes,
    }
    if config.api_keys:
        settings["api_keys"] = [{"tenant": key.tenant, "sha256": key.sha256} for key in config.api_keys]
    return settings


def worker_of(
    node: NodeFace, config: Config, edge: EdgeSettings | None, *, folder: Path, secret: bytes, admin_token: str
) -> dict[str, Any]:
    """The Worker as the runtime is told of it; `folder` is where edge.toml's paths begin.  Raises ConfigError."""
    edge = edge or EdgeSettings()
    entry = (folder / edge.worker.entry).resolve() if edge.worker.entry else bundled_entry().resolve()
    settings = edge.settings if edge.settings is not None else settings_for(node, config)
    page = page_folder(edge, folder=folder)
    if page is not None and not page.is_dir():
        raise EdgeError(f"the folder of static files {page} is not there: name another with `folder` in [assets]")
    return {
        "page": None if page is None else str(page.resolve()),
        "root": str(entry.parent),
        "entry": entry.name,
        "date": edge.worker.compatibility_date,
        "flags": list(edge.worker.compatibility_flags),
        "bindings": {
            **({NODE_KEY: node.key} if node.key else {}),
            **dict(edge.variables),
            **_secrets(edge),
            SETTINGS: json.dumps(settings),
            SECRET: secret.hex(),
            ADMIN: admin_token,
        },
    }


def ai_of(node: NodeFace) -> Mapping[str, str] | None:
    model = node.own_model
    return None if model is None else {"url": node.url, "model": model, "key": node.key}


def _routes(node: NodeFace, config: Config) -> list[dict[str, Any]]:
    """Those of the node that an edge can have too, in their order, then one for all else."""
    revisions = {model.name: model.revision for model in node.models if model.revision}
    found = []
    for route in written_routes(config):
        if route.kind != "model" or route.languages or route.upstream_model:
            continue
        revision = revisions.pop(route.model, "") if route.model else route.revision or route.name
        if revision:
            found.append(_to_node(route.name, route.models, config, revision=revision, scope=route.scope))
    # Of a node whose settings are others than those read here.
    found = [_to_node(name, (name,), config, revision=revision) for name, revision in revisions.items()] + found
    return [*found, _to_node(REST, ("*",), config)]


def _to_node(
    name: str, models: Sequence[str], config: Config, *, revision: str = "", scope: str = "credential"
) -> dict[str, Any]:
    route: dict[str, Any] = {"name": name, "models": list(models), "upstream": "node"}
    if scope == "shared":
        route["scope"] = scope
    elif not config.api_keys:
        # Whose answers those are is told by the caller's credential: on both sides the same.
        route["pass_credential"] = True
    return {**route, "revision": revision} if revision else route


def _secrets(edge: EdgeSettings) -> dict[str, str]:
    found = {}
    for source in edge.secrets:
        if source.name in (SECRET, ADMIN):
            continue  # the node's own are given
        try:
            found[source.name] = source.read()
        except ValueError as e:
            raise EdgeError(f"the secret {source.name} of edge.toml: {e}") from None
    return found
