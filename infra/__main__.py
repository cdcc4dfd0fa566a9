"""The edge with Pulumi: set accountId, zoneId and routePattern, and the secret that the Worker needs, then `pulumi up`.

    pulumi config set --secret FORETOLD_SECRET "$(openssl rand -hex 32)"

The Worker's own settings are JSON in `settings`.  More secrets are the stack's secrets whose names stand in
`secretNames`, a list:

    pulumi config set settings '{"upstreams": {"openai": {"url": "https://api.openai.com/v1", "key": {"env": "UPSTREAM_KEY"}}}}'
    pulumi config set --secret UPSTREAM_KEY …
    pulumi config set --path 'secretNames[0]' UPSTREAM_KEY

With `edgeFile` all of it comes from an edge.toml instead, and so do the names of the secrets; their values stay the
stack's.
"""

from __future__ import annotations

from pathlib import Path

import pulumi

from foretold.deploy.describing import NEEDED_SECRET, SETTINGS, bundled_entry, describe_without_secrets
from foretold.deploy.modules import collect
from foretold.deploy.plan import Bucket, Edge, Route, Script, Variable
from foretold.deploy.pulumi import EdgePredictions
from foretold.deploy.settings import load_edge

config = pulumi.Config()


def of_file(path: Path) -> tuple[Edge, list[str]]:
    settings = load_edge(path)
    return describe_without_secrets(settings, folder=path.parent), [source.name for source in settings.secrets]


def of_config() -> tuple[Edge, list[str]]:
    entry, bucket, settings = config.get("entry"), config.get("bucket"), config.get("settings")
    modules = collect(Path(entry) if entry else bundled_entry())
    edge = Edge(
        account_id=config.require("accountId"),
        script=Script(
            name=config.get("scriptName") or "prediction-worker",
            main_module=modules[0].name,
            modules=modules,
            compatibility_date="2026-04-01",
            compatibility_flags=("enable_request_signal",),
            bucket=Bucket(name=bucket) if bucket else None,
            ai="AI" if config.get_bool("workersAi") else None,
            variables=(Variable(name=SETTINGS, text=settings),) if settings else (),
        ),
        route=Route(zone_id=config.require("zoneId"), pattern=config.require("routePattern")),
    )
    return edge, [*([] if entry else [NEEDED_SECRET]), *(config.get_object("secretNames") or [])]


edge_file = config.get("edgeFile")
edge, names = of_file(Path(edge_file)) if edge_file else of_config()
made = EdgePredictions("predictions", edge, secrets={name: config.require_secret(name) for name in names})

pulumi.export("kv_namespace_id", made.kv_namespace_id)
pulumi.export("worker_script_name", made.worker_script_name)
pulumi.export("worker_route_pattern", made.worker_route_pattern)
