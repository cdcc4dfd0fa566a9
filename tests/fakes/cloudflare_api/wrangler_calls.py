"""What wrangler 4.86 asks beside what the SDK asks: the older paths of services, and routes as the whole of a list."""

from __future__ import annotations

import json

from aiohttp import web

from tests.fakes.cloudflare_api.asking import answer, query, things
from tests.fakes.cloudflare_api.things import ACCOUNT_ID, Refusal, Script
from tests.fakes.cloudflare_api.zones import put_route


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/workers"
    return [
        web.get(f"{base}/services/{{script}}", service, allow_head=False),
        web.get(f"{base}/scripts/{{script}}/deployments", deployments, allow_head=False),
        web.put(f"{base}/scripts/{{script}}/routes", put_routes),
    ]


async def service(request: web.Request) -> web.Response:
    query(request)
    _script(request)
    deployed = {"last_deployed_from": "api", "tag": None, "tags": None}
    return answer({"id": request.match_info["script"], "default_environment": {"script": deployed}})


async def deployments(request: web.Request) -> web.Response:
    _script(request)
    return answer({"deployments": []})


async def put_routes(request: web.Request) -> web.Response:
    """The Worker's routes are these afterwards, and no others."""
    told = json.loads(await request.read())
    held, name = things(request), request.match_info["script"]
    _script(request)
    for route in told:
        if set(route) - {"pattern", "zone_id", "zone_name"}:
            raise Refusal(400, 10001, f"a route has unknown members: {sorted(route)}")
    patterns = {route["pattern"] for route in told}
    for route_id, route in list(held.routes.items()):
        if route["script"] == name and route["pattern"] not in patterns:
            del held.routes[route_id]
    for route in told:
        there = [r for r in held.routes.values() if r["pattern"] == route["pattern"]]
        if there and there[0]["script"] != name:
            raise Refusal(409, 10020, f"{route['pattern']} is already assigned to {there[0]['script']}")
        if not there:
            put_route(held, route["zone_id"], pattern=route["pattern"], script=name)
    return answer(sorted(patterns))


def _script(request: web.Request) -> Script:
    assert request.match_info["account"] == ACCOUNT_ID
    found = things(request).scripts.get(request.match_info["script"])
    if found is None:
        raise Refusal(404, 10007, "This Worker does not exist on your account.")
    return found
