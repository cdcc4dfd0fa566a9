"""The description as a wrangler.jsonc: `wrangler deploy` with it sends the same script, bindings and routes.

Secrets are no part of such a file; wrangler leaves those that the Worker has as they are.
"""

from __future__ import annotations

import json
from typing import Any

from foretold.deploy.plan import Domain, Edge, Route, Script
from foretold.errors import ConfigError

# Wrangler's names for the types of modules.
_RULES = {
    "application/javascript+module": "ESModule",
    "application/wasm": "CompiledWasm",
    "text/plain": "Text",
    "application/octet-stream": "Data",
}


def wrangler_jsonc(
    edge: Edge, *, main: str, kv_namespace_id: str, secret_names: tuple[str, ...] = (), assets_folder: str = ""
) -> str:
    """`main` is the entry as seen from the file's folder, `assets_folder` that of the static files."""
    secrets = [f"//   npx wrangler secret put {name}\n" for name in secret_names]
    told = ["// Made by `foretold edge export wrangler`; change edge.toml and make it anew.\n"]
    if secrets:
        told += ["// The Worker's secrets are not in here:\n", *secrets]
    config = wrangler_config(edge, main=main, kv_namespace_id=kv_namespace_id, assets_folder=assets_folder)
    return "".join(told) + json.dumps(config, indent=2) + "\n"


def wrangler_config(edge: Edge, *, main: str, kv_namespace_id: str, assets_folder: str = "") -> dict[str, Any]:
    """Every default that matters is said, so that another version of wrangler can't mean something else."""
    script = edge.script
    if not main.endswith(script.main_module):
        raise ConfigError(f"the entry {main!r} is not the main module {script.main_module!r}")
    if script.cached_entrypoints:
        raise ConfigError(
            "`workers_cache` is on, and wrangler 4.86 can't turn Workers Cache on for one entrypoint: deploy with "
            "`foretold deploy cloudflare apply`, or turn it off"
        )
    config: dict[str, Any] = {
        "name": script.name,
        "account_id": edge.account_id,
        "main": main,
        "compatibility_date": script.compatibility_date,
        "compatibility_flags": list(script.compatibility_flags),
        # Files go out as they are, one by one, and only those that the entry reaches.
        "no_bundle": True,
        "find_additional_modules": True,
        "base_dir": main.removesuffix(script.main_module) or "./",
        "rules": _module_rules(script),
        "workers_dev": edge.workers_dev,
        "preview_urls": False,
        "send_metrics": False,
        "observability": {"enabled": script.logs},
        "kv_namespaces": [{"binding": script.kv.binding, "id": kv_namespace_id}],
    }
    routes = [_route(place) for place in (edge.route, edge.domain) if place is not None]
    if routes:
        config["routes"] = routes
    config.update(_bindings(script))
    if script.assets is not None:
        if not assets_folder:
            raise ConfigError("the static files are in no folder, and wrangler reads folders: collect them from one")
        config["assets"] = {"directory": assets_folder, "binding": script.assets.binding, **script.assets.config()}
    return config


def _module_rules(script: Script) -> list[dict[str, Any]]:
    by_type: dict[str, list[str]] = {rule: [] for rule in _RULES.values()}
    for module in script.modules:
        by_type[_RULES[module.content_type]].append(module.name)
    # A type without files is said too: wrangler's own rule for it would find more than the entry reaches.
    return [{"type": rule, "globs": sorted(names), "fallthrough": False} for rule, names in by_type.items() if names]


def _bindings(script: Script) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if script.variables:
        found["vars"] = {v.name: v.text for v in script.variables}
    if script.buckets:
        found["r2_buckets"] = [{"binding": b.binding, "bucket_name": b.name} for b in script.buckets]
    if script.ai is not None:
        found["ai"] = {"binding": script.ai}
    if script.rate_limit is not None:
        limit = script.rate_limit
        simple = {"limit": limit.requests, "period": limit.period_s}
        found["ratelimits"] = [{"name": limit.binding, "namespace_id": limit.namespace_id, "simple": simple}]
    if script.analytics is not None:
        found["analytics_engine_datasets"] = [
            {"binding": script.analytics.binding, "dataset": script.analytics.dataset}
        ]
    return found


def _route(place: Route | Domain) -> dict[str, Any]:
    if isinstance(place, Domain):
        return {"pattern": place.hostname, "custom_domain": True, "zone_id": place.zone_id}
    return {"pattern": place.pattern, "zone_id": place.zone_id}
