"""What is to stand on Cloudflare, as values: the one description that every way of deploying consumes.

A description is checked when it is made: an impossible name, id or pattern is a ConfigError that says what would be
right.  It names its KV namespace by title, since the account gives ids; `wire_bindings` fills the id in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from foretold.deploy import rules
from foretold.deploy.assets import Assets
from foretold.errors import ConfigError

# What each version we upload is tagged with; a version without it was made by somebody else.
OURS = "foretold"
MODULE_TYPES = {
    ".js": "application/javascript+module",
    ".mjs": "application/javascript+module",
    ".wasm": "application/wasm",
    ".txt": "text/plain",
    ".bin": "application/octet-stream",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KvNamespace:
    """`title` is unique in an account; the Worker sees it as `binding`."""

    binding: str = "PREDICTION_CACHE"
    title: str = "PredictionCache"

    def __post_init__(self) -> None:
        rules.check_binding(self.binding)
        rules.check_title(self.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """An R2 bucket; objects older than `expire_days` are deleted by R2 itself, unfinished uploads after a day."""

    name: str
    binding: str = "PREDICTION_BODIES"
    expire_days: int = 30

    def __post_init__(self) -> None:
        rules.check_binding(self.binding)
        rules.check_bucket(self.name)
        if not 1 <= self.expire_days <= 3650:
            raise ConfigError(f"a bucket's lifetime is {self.expire_days} days: give 1 to 3650")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the script; `name` is its path from the entry's folder, as other modules import it.

    `file` is where it was read from, for tools that read it themselves.
    """

    name: str
    content: bytes = field(repr=False)
    content_type: str
    file: Path | None = field(default=None, compare=False, repr=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """Counted per location and client; `namespace_id` is a number of our own that names the counter."""

    binding: str = "RATE_LIMIT"
    namespace_id: str = "3673"
    requests: int = 100
    period_s: int = 60

    def __post_init__(self) -> None:
        rules.check_binding(self.binding)
        rules.check_rate(self.namespace_id, requests=self.requests, period_s=self.period_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Analytics:
    binding: str = "FORETOLD_METRICS"
    dataset: str = "foretold_outcomes"

    def __post_init__(self) -> None:
        rules.check_binding(self.binding)
        rules.check_dataset(self.dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    name: str
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        rules.check_binding(self.name)
        rules.check_value(self.name, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    name: str
    text: str

    def __post_init__(self) -> None:
        rules.check_binding(self.name)
        rules.check_value(self.name, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The Worker: its files, and what it gets as `env`.

    Before `cached_entrypoints`, and no others, stands Workers Cache.  `needs` are secrets without which it answers
    nothing.
    """

    name: str = "prediction-worker"
    main_module: str
    modules: tuple[Module, ...]
    compatibility_date: str
    compatibility_flags: tuple[str, ...] = ()
    kv: KvNamespace = KvNamespace()
    bucket: Bucket | None = None
    log_bucket: Bucket | None = None
    ai: str | None = None
    rate_limit: RateLimit | None = None
    analytics: Analytics | None = None
    variables: tuple[Variable, ...] = ()
    secrets: tuple[Secret, ...] = ()
    assets: Assets | None = None
    cached_entrypoints: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    logs: bool = True

    def __post_init__(self) -> None:
        rules.check_script(self.name)
        rules.check_date(self.compatibility_date)
        rules.check_flags(self.compatibility_flags)
        rules.check_modules(self.main_module, [(m.name, len(m.content)) for m in self.modules])
        if self.ai is not None:
            rules.check_binding(self.ai)
        for entrypoint in self.cached_entrypoints:
            rules.check_entrypoint(entrypoint)
        if len({bucket.name for bucket in self.buckets}) < len(self.buckets):
            raise ConfigError(
                f"the bucket {self.buckets[0].name!r} is to hold answers and logs: give each its own, since each has its "
                "own lifetime"
            )
        rules.check_apart([str(b["name"]) for b in wire_bindings(self, kv_namespace_id="")])

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return tuple(bucket for bucket in (self.bucket, self.log_bucket) if bucket is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    zone_id: str
    pattern: str

    def __post_init__(self) -> None:
        rules.check_id(self.zone_id, "zone")
        rules.check_pattern(self.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    zone_id: str
    hostname: str

    def __post_init__(self) -> None:
        rules.check_id(self.zone_id, "zone")
        rules.check_hostname(self.hostname)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """All of one deployment."""

    account_id: str
    script: Script
    route: Route | None = None
    domain: Domain | None = None
    workers_dev: bool = False

    def __post_init__(self) -> None:
        rules.check_id(self.account_id, "account")
        if self.route is None and self.domain is None and not self.workers_dev:
            raise ConfigError(
                "nobody could reach the Worker: name a route or a domain, or turn `workers_dev` on for a test"
            )


def wire_bindings(script: Script, *, kv_namespace_id: Any) -> list[dict[str, Any]]:
    """The bindings as Cloudflare's API has them, sorted by name; secrets with their values.

    `kv_namespace_id` is a text, or whatever stands for it until the account has given one.
    """
    found: list[dict[str, Any]] = [
        {"type": "kv_namespace", "name": script.kv.binding, "namespace_id": kv_namespace_id},
        *({"type": "plain_text", "name": v.name, "text": v.text} for v in script.variables),
        *({"type": "secret_text", "name": s.name, "text": s.text} for s in script.secrets),
    ]
    found += [{"type": "r2_bucket", "name": bucket.binding, "bucket_name": bucket.name} for bucket in script.buckets]
    if script.ai is not None:
        found.append({"type": "ai", "name": script.ai})
    if script.rate_limit is not None:
        limit = script.rate_limit
        simple = {"limit": limit.requests, "period": limit.period_s}
        found.append({"type": "ratelimit", "name": limit.binding, "namespace_id": limit.namespace_id, "simple": simple})
    if script.analytics is not None:
        found.append(
            {"type": "analytics_engine", "name": script.analytics.binding, "dataset": script.analytics.dataset}
        )
    if script.assets is not None:
        found.append({"type": "assets", "name": script.assets.binding})
    return sorted(found, key=lambda binding: str(binding["name"]))


def cache_members(script: Script) -> dict[str, Any]:
    """What an upload says of Workers Cache; nothing where no entrypoint has it."""
    if not script.cached_entrypoints:
        return {}
    return {
        # What is kept outlives an upload: a record says itself how long it is good.
        "cache_options": {"enabled": False, "cross_version_cache": True},
        "exports": {name: {"type": "worker", "cache": {"enabled": True}} for name in script.cached_entrypoints},
    }


def lifecycle_rules(bucket: Bucket) -> list[dict[str, Any]]:
    """As the SDK takes them."""
    day_s = 86_400
    return [
        {
            "id": "foretold-expire",
            "enabled": True,
            "conditions": {"prefix": ""},
            "delete_objects_transition": {"condition": {"type": "Age", "max_age": bucket.expire_days * day_s}},
            "abort_multipart_uploads_transition": {"condition": {"type": "Age", "max_age": day_s}},
        }
    ]


@lru_cache(maxsize=4)
def version_tag(edge: Edge) -> str:
    """Names a version by all that goes into its upload, at most 100 bytes: `foretold-<content>-<secrets>`.

    The secrets' part is slow to compute on purpose, and short: whoever can read the account can't try out values.
    """
    script = edge.script
    said = {
        "name": script.name,
        "main": script.main_module,
        "modules": sorted([m.name, m.content_type, m.sha256] for m in script.modules),
        "date": script.compatibility_date,
        "flags": script.compatibility_flags,
        "logs": script.logs,
        "kv": script.kv.title,
        "bindings": [b for b in wire_bindings(script, kv_namespace_id="") if b["type"] != "secret_text"],
    }
    if script.assets is not None:
        said["assets"] = [script.assets.manifest(), script.assets.config()]
    said.update(cache_members(script))
    content = hashlib.sha256(_canonical(said)).hexdigest()[:32]
    secrets = _canonical(sorted([s.name, s.text] for s in script.secrets))
    salt = f"{edge.account_id}/{script.name}".encode()
    slow = hashlib.scrypt(secrets, salt=salt, n=2**14, r=8, p=1, dklen=8).hex() if script.secrets else "none"
    return f"{OURS}-{content}-{slow}"


def is_ours(tags: Iterable[str]) -> bool:
    return OURS in tags


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
