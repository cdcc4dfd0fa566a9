"""What a token must be allowed to do for a description, and where that is granted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from foretold.deploy.plan import Edge

TOKENS_PAGE = "https://dash.cloudflare.com/profile/api-tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """`group` is its name in the API, `shown` the three fields of the dashboard's form."""

    group: str
    shown: str
    zone_id: str = ""

    def __str__(self) -> str:
        where = f" for the zone {self.zone_id}" if self.zone_id else ""
        return f"{self.shown}{where}"


SCRIPTS = Permission(group="Workers Scripts Write", shown="Account · Workers Scripts · Edit")
KV = Permission(group="Workers KV Storage Write", shown="Account · Workers KV Storage · Edit")
TAIL = Permission(group="Workers Tail Read", shown="Account · Workers Tail · Read")
R2 = Permission(group="Workers R2 Storage Write", shown="Account · Workers R2 Storage · Edit")


def routes_of(zone_id: str) -> Permission:
    return Permission(group="Workers Routes Write", shown="Zone · Workers Routes · Edit", zone_id=zone_id)


def zone_of(zone_id: str) -> Permission:
    return Permission(group="Zone Read", shown="Zone · Zone · Read", zone_id=zone_id)


def needed(edge: Edge) -> tuple[Permission, ...]:
    found = [SCRIPTS, KV]
    if edge.script.buckets:
        found.append(R2)
    for zone_id in zone_ids(edge):
        found += [routes_of(zone_id), zone_of(zone_id)]
    return tuple(found)


def zone_ids(edge: Edge) -> tuple[str, ...]:
    """Of the route and the domain, each once."""
    named = [place.zone_id for place in (edge.route, edge.domain) if place is not None]
    return tuple(dict.fromkeys(named))


def missing(edge: Edge, policies: Iterable[dict[str, Any]]) -> tuple[Permission, ...]:
    """Those that a token with these policies hasn't.  Policies are as the API tells them."""
    allowed = [p for p in policies if p.get("effect") == "allow"]
    return tuple(p for p in needed(edge) if not any(_grants(policy, p, edge.account_id) for policy in allowed))


def _grants(policy: dict[str, Any], permission: Permission, account_id: str) -> bool:
    names = {group.get("name") for group in policy.get("permission_groups", ())}
    wanted = {permission.group} | ({"Zone Write"} if permission.group == "Zone Read" else set())
    return bool(names & wanted) and any(
        resource in _covering(permission, account_id) for resource in _resources(policy.get("resources", {}))
    )


def _covering(permission: Permission, account_id: str) -> set[str]:
    if not permission.zone_id:
        return {f"com.cloudflare.api.account.{account_id}", "com.cloudflare.api.account.*"}
    return {f"com.cloudflare.api.account.zone.{permission.zone_id}", "com.cloudflare.api.account.zone.*"}


def _resources(resources: dict[str, Any]) -> Iterator[str]:
    for name, inner in resources.items():
        if isinstance(inner, dict):
            yield from _resources(inner)
        else:
            yield name


def told(lacking: Iterable[Permission], *, account_id: str) -> str:
    """Why nothing was done, and what to grant."""
    lines = "\n".join(f"    {permission}" for permission in lacking)
    return (
        f"the API token may not do all that is needed in the account {account_id}; add to it, at {TOKENS_PAGE}:\n"
        f"{lines}\n  If the token has them, it may be for another account or zone."
    )
