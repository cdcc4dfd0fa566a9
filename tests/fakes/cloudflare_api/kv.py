"""KV namespaces and their values."""

from __future__ import annotations

import json
import time

from aiohttp import web

from tests.fakes.cloudflare_api.asking import answer, body, no_body, page_of, parts, query, things
from tests.fakes.cloudflare_api.things import Namespace, Refusal, identity

LARGEST_VALUE_BYTES = 25 * 2**20


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/storage/kv/namespaces"
    values = f"{base}/{{namespace}}/values/{{key}}"
    return [
        web.get(base, list_namespaces, allow_head=False),
        web.post(base, create),
        web.delete(f"{base}/{{namespace}}", delete),
        web.get(values, get_value, allow_head=False),
        web.put(values, put_value),
        web.delete(values, delete_value),
    ]


async def list_namespaces(request: web.Request) -> web.Response:
    query(request, "page", "per_page", "order", "direction")
    found = sorted(things(request).namespaces, key=lambda n: n.title)
    return page_of(({"id": n.id, "title": n.title, "supports_url_encoding": True} for n in found), request, most=1000)


async def create(request: web.Request) -> web.Response:
    told = await body(request, title=str, _jurisdiction=str)
    held = things(request)
    if not told["title"].strip() or len(told["title"]) > 512:
        raise Refusal(400, 10025, "namespace title is too short or too long")
    if any(n.title == told["title"] for n in held.namespaces):
        raise Refusal(400, 10014, "a namespace with this account ID and title already exists")
    made = Namespace(identity("kv", told["title"]), told["title"])
    held.namespaces.append(made)
    return answer({"id": made.id, "title": made.title, "supports_url_encoding": True})


async def delete(request: web.Request) -> web.Response:
    await no_body(request)
    things(request).namespaces.remove(_namespace(request))
    return answer({})


async def put_value(request: web.Request) -> web.Response:
    """Multipart with `value` and `metadata`, or the raw bytes."""
    asked = query(request, "expiration", "expiration_ttl")
    key = request.match_info["key"]
    if len(key.encode()) > 512:
        raise Refusal(414, 10030, f"UTF-8 encoded length of {len(key.encode())} exceeds key length limit of 512")
    ttl = float(asked.get("expiration_ttl", "60"))
    if ttl < 60 or ("expiration" in asked and float(asked["expiration"]) - time.time() < 60):
        raise Refusal(400, 10033, f"Invalid expiration_ttl of {ttl:g}. Expiration TTL must be at least 60.")
    metadata: dict[str, object] = {}
    if request.content_type == "multipart/form-data":
        form = {part.name: part.content for part in await parts(request)}
        content = form["value"]
        metadata = json.loads(form.get("metadata", b"{}"))
    else:
        content = await request.read()
    if len(json.dumps(metadata, separators=(",", ":"))) > 1024:
        raise Refusal(413, 10031, "Metadata length exceeds limit of 1024")
    if len(content) > LARGEST_VALUE_BYTES:
        raise Refusal(413, 10032, f"Value length of {len(content)} exceeds limit of {LARGEST_VALUE_BYTES}")
    _namespace(request).values[key] = (content, metadata)
    return answer(None)


async def get_value(request: web.Request) -> web.Response:
    query(request)
    found = _namespace(request).values.get(request.match_info["key"])
    if found is None:
        raise Refusal(404, 10009, "get: 'key not found'")
    return web.Response(body=found[0], content_type="application/octet-stream")


async def delete_value(request: web.Request) -> web.Response:
    _namespace(request).values.pop(request.match_info["key"], None)
    return answer(None)


def _namespace(request: web.Request) -> Namespace:
    for namespace in things(request).namespaces:
        if namespace.id == request.match_info["namespace"]:
            return namespace
    raise Refusal(404, 10013, "namespace not found")
