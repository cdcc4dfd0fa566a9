"""What an account has of an edge: read anew each time, kept nowhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Dns(Enum):
    """What is known of the DNS record of a route's host; unread where the token may not see it, or hosts are many."""

    PROXIED = "proxied"
    NOT_PROXIED = "not proxied"
    NO_RECORD = "no record"
    UNREAD = "unread"


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

    `kv_users` and `bucket_users` are other Workers bound to our namespace or buckets, looked for only before
    destroying.
    """

    kv_namespace_id: str | None = None
    buckets: tuple[FoundBucket, ...] = ()
    script: FoundScript | None = None
    workers_dev_subdomain: str | None = None
    routes: tuple[FoundRoute, ...] = ()
    domains: tuple[FoundDomain, ...] = ()
    zones: dict[str, str] = field(default_factory=dict)
    dns: Dns = Dns.UNREAD
    kv_users: tuple[str, ...] = ()
    bucket_users: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def bucket(self, name: str) -> FoundBucket | None:
        return next((bucket for bucket in self.buckets if bucket.name == name), None)
