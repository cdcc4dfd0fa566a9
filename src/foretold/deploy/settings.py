"""`edge.toml`: where the Worker goes and what it gets, every setting with one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretold.config import values as v
from foretold.config.engines import Fail
from foretold.config.reading import load_as, read_text
from foretold.config.tables import setting, table
from foretold.deploy.assets import WORKER_FIRST
from foretold.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where a secret comes from; it is read only when it is sent."""

    name: str
    given: dict[str, str]

    def read(self) -> str:
        """Raises ValueError."""
        return v.secret(self.given).text


def secret_sources(value: Any) -> tuple[SecretSource, ...]:
    if not isinstance(value, dict):
        raise ValueError('give a table such as { UPSTREAM_KEY = { env = "OPENAI_API_KEY" } }')
    for name, given in value.items():
        if not isinstance(given, dict) or set(given) not in ({"env"}, {"file"}):
            raise ValueError(f'{name} must come from outside: give {{ env = "NAME" }} or {{ file = "PATH" }}')
    return tuple(SecretSource(name, given) for name, given in value.items())


def worker_settings(value: Any) -> dict[str, Any]:
    """Checked by the Worker, which knows them; here only that they can be told as JSON."""
    if not isinstance(value, dict):
        raise ValueError("give a table, such as [settings.cache]")
    try:
        json.dumps(value)
    except TypeError as e:
        raise ValueError(f"the Worker reads JSON, which knows no dates: {e}") from None
    return value


# Somebody may have written the secret itself there: errors don't repeat it.
secret_sources.is_private = True  # type: ignore[attr-defined]


def variables(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError('give a table of texts, such as { ORIGIN_URL = "https://node.example" }')
    return tuple(value.items())


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    name: str = setting(v.text, "prediction-worker", "the Worker's name in the account", shown='"prediction-worker"')
    entry: str = setting(
        v.maybe_text, "", "its main file, if not the Worker that comes with this program", shown='"src/worker.js"'
    )
    compatibility_date: str = setting(
        v.text, "2026-04-01", "the day whose runtime behaviour it keeps", shown='"2026-04-01"'
    )
    compatibility_flags: tuple[str, ...] = setting(
        v.texts, ("enable_request_signal",), "what else its runtime does", shown='["enable_request_signal"]'
    )
    cached_entrypoints: tuple[str, ...] = setting(
        v.texts,
        (),
        "exported classes before which Workers Cache stands; our own Worker's is known by its settings",
        shown='["Records"]',
    )
    workers_dev: bool = setting(v.flag, False, "also reachable at NAME.SUBDOMAIN.workers.dev", shown="false")
    logs: bool = setting(v.flag, True, "keeps the logs of its runs for some days", shown="true")


@dataclass(frozen=True, kw_only=True)
class RouteSettings:
    zone_id: str = setting(v.maybe_text, "", "the zone that has the hosts", shown='"023e105f4ecef8ad9ca31a8372d0c353"')
    pattern: str = setting(v.maybe_text, "", "what comes to the Worker", shown='"example.com/predict*"')


@dataclass(frozen=True, kw_only=True)
class DomainSettings:
    zone_id: str = setting(v.maybe_text, "", "the zone that has the host", shown='"023e105f4ecef8ad9ca31a8372d0c353"')
    hostname: str = setting(v.maybe_text, "", "a host that the Worker has to itself", shown='"ai.example.com"')


@dataclass(frozen=True, kw_only=True)
class KvSettings:
    title: str = setting(v.text, "PredictionCache", "the namespace's title in the account", shown='"PredictionCache"')


@dataclass(frozen=True, kw_only=True)
class R2Settings:
    bucket: str = setting(v.maybe_text, "", "the bucket for bodies too large for KV", shown='"prediction-bodies"')
    expire_days: int = setting(v.number(1, 3650), 30, "when R2 deletes an object by itself", shown="30")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    bucket: str = setting(
        v.maybe_text, "", "an R2 bucket for a line of each request, many to an object", shown='"prediction-logs"'
    )
    expire_days: int = setting(v.number(1, 3650), 30, "when R2 deletes a line by itself", shown="30")


@dataclass(frozen=True, kw_only=True)
class AssetSettings:
    enabled: bool = setting(v.flag, True, "serves static files beside the Worker", shown="true")
    folder: str = setting(
        v.maybe_text, "", "where they are, if not the page that comes with the Worker", shown='"public"'
    )
    worker_first: tuple[str, ...] = setting(
        v.texts,
        WORKER_FIRST,
        "paths that go to the Worker even if there is such a file",
        shown='["/v1/*", "/predict/*", "/-/*"]',
    )


@dataclass(frozen=True, kw_only=True)
class TrySettings:
    model: str = setting(
        v.maybe_text,
        "",
        "what apply asks at its end, a miss and then a hit; else the first that `settings` name",
        shown='"gpt-4.1-mini"',
    )
    url: str = setting(v.maybe_text, "", "where, if not at the route or domain", shown='"https://ai.example.com"')


@dataclass(frozen=True, kw_only=True)
class AiSettings:
    enabled: bool = setting(v.flag, False, "lets the Worker ask Workers AI", shown="false")


@dataclass(frozen=True, kw_only=True)
class RateLimitSettings:
    requests: int = setting(
        v.number(0, 1_000_000), 0, "requests a client may make in a period and place; 0 sets no limit", shown="0"
    )
    period_s: int = setting(v.number(10, 60), 60, "the period, 10 or 60 seconds", shown="60")
    namespace_id: int = setting(
        v.number(1, 2**31 - 1), 3673, "a number that no other rate limit of the account has", shown="3673"
    )


@dataclass(frozen=True, kw_only=True)
class AnalyticsSettings:
    dataset: str = setting(v.maybe_text, "", "where outcomes are counted", shown='"foretold_outcomes"')


@dataclass(frozen=True, kw_only=True)
class EdgeSettings:
    account_id: str = setting(
        v.maybe_text, "", "the account; else CLOUDFLARE_ACCOUNT_ID", shown='"023e105f4ecef8ad9ca31a8372d0c353"'
    )
    variables: tuple[tuple[str, str], ...] = setting(
        variables, (), "texts that the Worker reads", shown='{ ORIGIN_URL = "https://node.example" }'
    )
    secrets: tuple[SecretSource, ...] = setting(
        secret_sources, (), "secrets that the Worker reads", shown='{ UPSTREAM_KEY = { env = "OPENAI_API_KEY" } }'
    )
    settings: dict[str, Any] | None = setting(
        worker_settings,
        None,
        "the Worker's own settings, which it reads as JSON",
        shown='{ cache = { fresh = "24h" } }',
    )
    worker: WorkerSettings = table(WorkerSettings, "the Worker")
    route: RouteSettings = table(RouteSettings, "which requests come to it, beside an origin on the same host")
    domain: DomainSettings = table(DomainSettings, "or a whole host of its own")
    kv: KvSettings = table(KvSettings, "the KV namespace that keeps answers")
    r2: R2Settings = table(R2Settings, "the R2 bucket")
    logs: LogSettings = table(LogSettings, "the Worker's own log")
    assets: AssetSettings = table(AssetSettings, "static files")
    trial: TrySettings = table(TrySettings, "the question at the end of `apply`")
    ai: AiSettings = table(AiSettings, "Workers AI")
    rate_limit: RateLimitSettings = table(RateLimitSettings, "a limit before everything else")
    analytics: AnalyticsSettings = table(AnalyticsSettings, "Analytics Engine")


def load_edge(path: Path) -> EdgeSettings:
    """Raises ConfigError."""
    if not path.exists():
        raise ConfigError(
            f"there is no {path}, which says what to deploy: write one as docs/guides/deploy-to-cloudflare.md shows, or "
            "name another with --edge"
        )
    return load_edge_text(read_text(path), name=str(path))


def load_edge_text(text: str, *, name: str) -> EdgeSettings:
    """Raises ConfigError."""
    return load_as(EdgeSettings, text, name=name, check=_check)


def _check(settings: EdgeSettings, fail: Fail) -> None:
    for section, named in (("route", settings.route.pattern), ("domain", settings.domain.hostname)):
        zone = getattr(settings, section).zone_id
        if bool(zone) != bool(named):
            missing = "zone_id" if named else ("pattern" if section == "route" else "hostname")
            raise fail((section,), f"`{missing}` is missing: both are needed")
