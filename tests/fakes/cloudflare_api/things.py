"""What the accounts hold, and how the API says no."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ACCOUNT_ID = "023e105f4ecef8ad9ca31a8372d0c353"
ZONE_ID = "353c0d3272a8ad9ca31a8ecef8023e10"
ZONE_NAME = "example.com"
TOKEN = "v1.0-a-token-of-the-tests"

ALL_PERMISSIONS = (
    "Workers Scripts Write",
    "Workers KV Storage Write",
    "Workers R2 Storage Write",
    "Workers Routes Write",
    "Zone Read",
)


class Refusal(Exception):
    """An answer of the API that is an error."""

    def __init__(self, status: int, code: int, message: str):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class Token:
    permissions: set[str]
    status: str = "active"
    account_id: str = ACCOUNT_ID
    zone_ids: tuple[str, ...] = (ZONE_ID,)

    def policies(self) -> list[dict[str, Any]]:
        zoned = {p for p in self.permissions if p.startswith(("Workers Routes", "Zone "))}
        parts = [
            (self.permissions - zoned, {f"com.cloudflare.api.account.{self.account_id}": "*"}),
            (zoned, {f"com.cloudflare.api.account.zone.{z}": "*" for z in self.zone_ids}),
        ]
        return [
            {
                "id": identity("policy", str(at)),
                "effect": "allow",
                "permission_groups": [{"id": identity("group", name), "name": name} for name in sorted(names)],
                "resources": resources,
            }
            for at, (names, resources) in enumerate(parts)
        ]


@dataclass
class Namespace:
    id: str
    title: str
    values: dict[str, tuple[bytes, dict[str, Any]]] = field(default_factory=dict)
    # By name, in seconds of the account's clock: when a value ends, and when it was last written or deleted.
    ends_s: dict[str, float] = field(default_factory=dict)
    written_s: dict[str, float] = field(default_factory=dict)

    def put(self, name: str, content: bytes, metadata: dict[str, Any], *, ttl_s: float | None, now_s: float) -> bool:
        """Whether it was taken: a name is written once a second."""
        if not self._may_write(name, now_s):
            return False
        self.values[name] = (content, metadata)
        self.ends_s.pop(name, None)
        if ttl_s is not None:
            self.ends_s[name] = now_s + ttl_s
        return True

    def delete(self, name: str, *, now_s: float) -> bool:
        if not self._may_write(name, now_s):
            return False
        self.values.pop(name, None)
        self.ends_s.pop(name, None)
        return True

    def get(self, name: str, *, now_s: float) -> bytes | None:
        if now_s >= self.ends_s.get(name, float("inf")):
            return None
        found = self.values.get(name)
        return None if found is None else found[0]

    def names(self, prefix: str, *, now_s: float) -> list[str]:
        return sorted(n for n in self.values if n.startswith(prefix) and self.get(n, now_s=now_s) is not None)

    def _may_write(self, name: str, now_s: float) -> bool:
        if now_s - self.written_s.get(name, float("-inf")) < 1:
            return False
        self.written_s[name] = now_s
        return True


@dataclass
class Bucket:
    name: str
    lifecycle: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Script:
    """`modules` and `assets` are content type and bytes by name; `secrets` the values that the API never tells."""

    metadata: dict[str, Any]
    modules: dict[str, tuple[str, bytes]]
    bindings: list[dict[str, Any]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    assets: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    on_workers_dev: bool = True
    has_previews: bool = True
    uploads: int = 1


@dataclass
class Things:
    tokens: dict[str, Token] = field(default_factory=lambda: {TOKEN: Token(set(ALL_PERMISSIONS))})
    zones: dict[str, str] = field(default_factory=lambda: {ZONE_ID: ZONE_NAME})
    subdomain: str | None = "quiet-field"
    namespaces: list[Namespace] = field(default_factory=list)
    buckets: dict[str, Bucket] = field(default_factory=dict)
    has_r2: bool = True
    scripts: dict[str, Script] = field(default_factory=dict)
    routes: dict[str, dict[str, Any]] = field(default_factory=dict)
    domains: dict[str, dict[str, Any]] = field(default_factory=dict)
    # By zone: name → whether its record is proxied.
    dns: dict[str, dict[str, bool]] = field(default_factory=dict)
    kept_assets: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    sessions: dict[str, Any] = field(default_factory=dict)
    tails: dict[str, tuple[str, Any]] = field(default_factory=dict)
    # Of the account's plan; the largest there is unless a test says otherwise.
    largest_script_bytes: int = 64 * 2**20
    now_s: Callable[[], float] = time.time

    def namespace(self, title: str) -> Namespace:
        return next(n for n in self.namespaces if n.title == title)

    def add_script(self, name: str, **more: Any) -> Script:
        """A Worker that somebody else has put there."""
        self.scripts[name] = Script(
            {"main_module": "worker.js", "compatibility_date": "2026-01-01"},
            {"worker.js": ("application/javascript+module", b"export default {};")},
            **more,
        )
        return self.scripts[name]

    def add_route(self, pattern: str, script: str | None, zone_id: str = ZONE_ID) -> None:
        route_id = identity("route", zone_id, pattern)
        self.routes[route_id] = {"id": route_id, "zone_id": zone_id, "pattern": pattern, "script": script}


def identity(*parts: str) -> str:
    """32 hex digits, the same for the same thing."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:32]
