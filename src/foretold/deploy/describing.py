"""From `edge.toml`, the Worker's files and the secrets to a description."""

from __future__ import annotations

import json
import os
from pathlib import Path

from foretold.deploy.assets import Assets, collect_assets
from foretold.deploy.modules import collect
from foretold.deploy.plan import (
    Analytics,
    Bucket,
    Domain,
    Edge,
    KvNamespace,
    RateLimit,
    Route,
    Script,
    Secret,
    Variable,
)
from foretold.deploy.settings import EdgeSettings, LogSettings, SecretSource
from foretold.errors import ConfigError

ENTRY = "prediction_worker.js"
# The binding in which the Worker looks for its settings, as JSON.
SETTINGS = "FORETOLD_SETTINGS"
CACHED_ENTRYPOINT = "Records"
NEEDED_SECRET = "FORETOLD_SECRET"  # noqa: S105  the name of a binding
_PLACES = (Path(__file__).parent / "worker", Path(__file__).parents[3] / "worker" / "src")
_PAGES = (Path(__file__).parent / "page", Path(__file__).parents[3] / "worker" / "assets")


def describe(settings: EdgeSettings, *, folder: Path) -> Edge:
    """The whole deployment, its secrets among it; `folder` is where relative paths begin.  Raises ConfigError."""
    return _edge(settings, folder, secrets=tuple(_secret(source) for source in settings.secrets))


def describe_without_secrets(settings: EdgeSettings, *, folder: Path) -> Edge:
    """For what sends none: they need not be at hand.  Raises ConfigError."""
    return _edge(settings, folder, secrets=())


def bundled_entry() -> Path:
    """The Worker that comes with this program.  Raises ConfigError if there is none."""
    for place in _PLACES:
        if (place / ENTRY).is_file():
            return place / ENTRY
    raise ConfigError("this installation has no Worker of its own: name yours with `entry` in [worker]")


def model_to_try(settings: EdgeSettings) -> str:
    """What the trial at the end of a deployment asks; empty if none is known."""
    if settings.trial.model:
        return settings.trial.model
    routes = (settings.settings or {}).get("routes")
    for route in routes if isinstance(routes, list) else ():
        for name in (route.get("models") if isinstance(route, dict) else None) or ():
            if isinstance(name, str) and "*" not in name:
                return name
    return ""


def _edge(settings: EdgeSettings, folder: Path, *, secrets: tuple[Secret, ...]) -> Edge:
    worker, route, domain = settings.worker, settings.route, settings.domain
    account_id = settings.account_id or os.environ.get("CLOUDFLARE_ACCOUNT_ID", "")
    if not account_id:
        raise ConfigError("no account is named: set `account_id` in edge.toml, or CLOUDFLARE_ACCOUNT_ID")
    entry = folder / worker.entry if worker.entry else bundled_entry()
    modules = collect(entry)
    limit = settings.rate_limit
    return Edge(
        account_id=account_id,
        script=Script(
            name=worker.name,
            main_module=modules[0].name,
            modules=modules,
            compatibility_date=worker.compatibility_date,
            compatibility_flags=worker.compatibility_flags,
            kv=KvNamespace(title=settings.kv.title),
            bucket=Bucket(name=settings.r2.bucket, expire_days=settings.r2.expire_days) if settings.r2.bucket else None,
            log_bucket=_log_bucket(settings.logs),
            assets=_assets(settings, folder),
            needs=() if worker.entry else (NEEDED_SECRET,),
            cached_entrypoints=_cached_entrypoints(settings),
            ai="AI" if settings.ai.enabled else None,
            rate_limit=RateLimit(namespace_id=str(limit.namespace_id), requests=limit.requests, period_s=limit.period_s)
            if limit.requests
            else None,
            analytics=Analytics(dataset=settings.analytics.dataset) if settings.analytics.dataset else None,
            variables=_variables(settings),
            secrets=secrets,
            logs=worker.logs,
        ),
        route=Route(zone_id=route.zone_id, pattern=route.pattern) if route.pattern else None,
        domain=Domain(zone_id=domain.zone_id, hostname=domain.hostname) if domain.hostname else None,
        workers_dev=worker.workers_dev,
    )


def _log_bucket(logs: LogSettings) -> Bucket | None:
    if not logs.bucket:
        return None
    return Bucket(name=logs.bucket, binding="FORETOLD_LOGS", expire_days=logs.expire_days)


def page_folder(settings: EdgeSettings, *, folder: Path) -> Path | None:
    """The static files' folder that is named, else that of the page which comes with this program's own Worker."""
    asked = settings.assets
    if not asked.enabled:
        return None
    if asked.folder:
        return folder / asked.folder
    return None if settings.worker.entry else next((place for place in _PAGES if place.is_dir()), None)


def _assets(settings: EdgeSettings, folder: Path) -> Assets | None:
    place = page_folder(settings, folder=folder)
    if place is None:
        return None
    return Assets(files=collect_assets(place), worker_first=settings.assets.worker_first, folder=place)


def _cached_entrypoints(settings: EdgeSettings) -> tuple[str, ...]:
    """Those that are named; of the Worker that comes with this program its own, if its settings ask for Workers Cache."""
    cache = (settings.settings or {}).get("cache")
    is_asked = isinstance(cache, dict) and cache.get("workers_cache") is True
    ours = (CACHED_ENTRYPOINT,) if is_asked and not settings.worker.entry else ()
    return tuple(dict.fromkeys((*ours, *settings.worker.cached_entrypoints)))


def _variables(settings: EdgeSettings) -> tuple[Variable, ...]:
    found = [Variable(name=name, text=text) for name, text in settings.variables]
    if settings.settings:
        told = json.dumps(settings.settings, ensure_ascii=False, separators=(",", ":"))
        found.append(Variable(name=SETTINGS, text=told))
    return tuple(found)


def _secret(source: SecretSource) -> Secret:
    try:
        return Secret(name=source.name, text=source.read())
    except ValueError as e:
        raise ConfigError(f"the secret {source.name} is not at hand: {e}") from None
