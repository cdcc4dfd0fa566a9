"""What an account has of an edge: read anew each time, kept nowhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBucket:
    name: str
    lifecycle: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundScript:
    """`bindings` as the API tells them, secrets without their values; `version_tag` is empty if nobody set one."""

    version_tag: str
    tags: tuple[str, ...]
    compatibility_date: str
    bindings: tuple[dict[str, Any], ...]
    on_workers_dev: bool
    has_previews: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRoute:
    """`script` is empty where a route keeps Workers away."""

    id: str
    zone_id: str
    pattern: str
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDomain:
    id: str
    hostname: str
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """None is "not there".  `zones` are the names of the zones asked for, by id.

    `kv_users` and `bucket_users` are other Workers bound to our namespace or bucket, looked for only before destroying.
    """

    kv_namespace_id: str | None = None
    bucket: FoundBucket | None = None
    script: FoundScript | None = None
    workers_dev_subdomain: str | None = None
    routes: tuple[FoundRoute, ...] = ()
    domains: tuple[FoundDomain, ...] = ()
    zones: dict[str, str] = field(default_factory=dict)
    kv_users: tuple[str, ...] = ()
    bucket_users: tuple[str, ...] = ()
