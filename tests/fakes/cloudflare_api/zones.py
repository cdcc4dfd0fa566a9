"""Zones, their routes, and tokens."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from tests.fakes.cloudflare_api.asking import answer, body, no_body, page_of, query, things
from tests.fakes.cloudflare_api.things import Refusal, Things, identity

# Host and path, a star only at the very start of the host and the very end of the path, no query, no port.
_PATTERN = re.compile(r"(https?://)?(\*|\*\.)?([a-z0-9_-]+\.)+[a-z0-9_-]+/[^*?#\s]*\*?")


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/zones/{{zone}}/workers/routes"
    return [
        web.get(f"{root}/zones/{{zone}}", zone, allow_head=False),
        web.get(f"{root}/zones/{{zone}}/dns_records", dns_records, allow_head=False),
        web.get(base, list_routes, allow_head=False),
        web.post(base, create),
        web.put(f"{base}/{{route}}", update),
        web.delete(f"{base}/{{route}}", delete),
        web.get(f"{root}/user/tokens/verify", verify, allow_head=False),
        web.get(f"{root}/user/tokens/{{token}}", token, allow_head=False),
        web.get(f"{root}/accounts/{{account}}/tokens/verify", verify, allow_head=False),
    ]


async def zone(request: web.Request) -> web.Response:
    query(request)
    name = things(request).zones.get(request.match_info["zone"])
    if name is None:
        raise Refusal(404, 1001, "Invalid zone identifier")
    return answer({"id": request.match_info["zone"], "name": name, "status": "active"})


async def dns_records(request: web.Request) -> web.Response:
    asked = query(request, "name.exact", "page", "per_page")
    zone_id = request.match_info["zone"]
    records = things(request).dns.get(zone_id, {})
    return page_of(
        (
            {
                "id": identity("dns", name),
                "type": "A",
                "name": name,
                "content": "192.0.2.1",
                "proxied": proxied,
                "ttl": 1,
            }
            for name, proxied in sorted(records.items())
            if name == asked.get("name.exact", name)
        ),
        request,
        most=1000,
    )


async def list_routes(request: web.Request) -> web.Response:
    query(request)
    return answer([_told(r) for r in things(request).routes.values() if r["zone_id"] == request.match_info["zone"]])


async def create(request: web.Request) -> web.Response:
    told = await body(request, pattern=str, _script=str)
    made = put_route(things(request), request.match_info["zone"], pattern=told["pattern"], script=told.get("script"))
    return answer(_told(made))


async def update(request: web.Request) -> web.Response:
    told = await body(request, pattern=str, _script=str)
    route_id = request.match_info["route"]
    _known(request, route_id)
    held, zone_id = things(request), request.match_info["zone"]
    made = put_route(held, zone_id, pattern=told["pattern"], script=told.get("script"), route_id=route_id)
    return answer(_told(made))


async def delete(request: web.Request) -> web.Response:
    await no_body(request)
    route_id = request.match_info["route"]
    _known(request, route_id)
    del things(request).routes[route_id]
    return answer({"id": route_id})


def put_route(held: Things, zone_id: str, *, pattern: str, script: str | None, route_id: str = "") -> dict[str, Any]:
    """Makes or changes a route.  Raises Refusal."""
    if not _PATTERN.fullmatch(pattern):
        raise Refusal(400, 10022, f"Route pattern {pattern!r} is invalid.")
    host = pattern.rpartition("://")[2].partition("/")[0].lstrip("*").lstrip(".")
    name = held.zones[zone_id]
    if host != name and not host.endswith(f".{name}"):
        raise Refusal(400, 10022, "Route pattern must match your zone.")
    for other in held.routes.values():
        if other["pattern"] == pattern and other["id"] != route_id:
            raise Refusal(409, 10020, "A route with the same pattern already exists.")
    if script is not None and script not in held.scripts:
        raise Refusal(400, 10019, "workers.api.error.script_not_found")
    route_id = route_id or identity("route", zone_id, pattern)
    held.routes[route_id] = {"id": route_id, "zone_id": zone_id, "pattern": pattern, "script": script}
    return held.routes[route_id]


def _known(request: web.Request, route_id: str) -> None:
    found = things(request).routes.get(route_id)
    if found is None or found["zone_id"] != request.match_info["zone"]:
        raise Refusal(404, 10007, "route not found")


def _told(route: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in route.items() if k != "zone_id" and v is not None}


async def verify(request: web.Request) -> web.Response:
    query(request)
    text = request.headers["authorization"].removeprefix("Bearer ")
    return answer({"id": identity("token", text), "status": things(request).tokens[text].status})


async def token(request: web.Request) -> web.Response:
    query(request)
    for text, found in things(request).tokens.items():
        if identity("token", text) == request.match_info["token"]:
            return answer({"id": request.match_info["token"], "status": found.status, "policies": found.policies()})
    raise Refusal(404, 1003, "token not found")
