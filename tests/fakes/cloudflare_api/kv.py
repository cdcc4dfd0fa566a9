"""KV namespaces and their values."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from aiohttp import web

from tests.fakes.cloudflare_api.asking import answer, body, no_body, page_of, parts, query, things
from tests.fakes.cloudflare_api.things import Namespace, Refusal, identity

LARGEST_VALUE_BYTES = 25 * 2**20
MOST_WRITTEN_AT_ONCE = 10_000
MOST_READ_AT_ONCE = 100
LARGEST_REQUEST_BYTES = 100 * 10**6


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/storage/kv/namespaces"
    one = f"{base}/{{namespace}}"
    values = f"{one}/values/{{key}}"
    return [
        web.get(base, list_namespaces, allow_head=False),
        web.post(base, create),
        web.delete(one, delete),
        web.get(values, get_value, allow_head=False),
        web.put(values, put_value),
        web.delete(values, delete_value),
        web.get(f"{one}/keys", list_keys, allow_head=False),
        web.put(f"{one}/bulk", put_many),
        web.post(f"{one}/bulk/delete", delete_many),
        web.post(f"{one}/bulk/get", get_many),
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
    now_s = things(request).now_s()
    key = _key(request.match_info["key"])
    metadata: dict[str, object] = {}
    if request.content_type == "multipart/form-data":
        form = {part.name: part.content for part in await parts(request)}
        content = form["value"]
        metadata = json.loads(form.get("metadata", b"{}"))
    else:
        content = await request.read()
    ttl_s = _ttl_s(asked, now_s)
    _check_value(content, metadata)
    if not _namespace(request).put(key, content, metadata, ttl_s=ttl_s, now_s=now_s):
        raise Refusal(429, 10058, "too many writes to one key")
    return answer(None)


async def get_value(request: web.Request) -> web.Response:
    query(request)
    found = _namespace(request).get(request.match_info["key"], now_s=things(request).now_s())
    if found is None:
        raise Refusal(404, 10009, "get: 'key not found'")
    return web.Response(body=found, content_type="application/octet-stream")


async def delete_value(request: web.Request) -> web.Response:
    if not _namespace(request).delete(request.match_info["key"], now_s=things(request).now_s()):
        raise Refusal(429, 10058, "too many writes to one key")
    return answer(None)


async def list_keys(request: web.Request) -> web.Response:
    """In pages, of which any but the last may be empty; a cursor is where the next one begins."""
    asked = query(request, "limit", "prefix", "cursor")
    limit = int(asked.get("limit", "1000"))
    if not 10 <= limit <= 1000:
        raise Refusal(400, 10001, "limit must be between 10 and 1000")
    at = int(asked.get("cursor", "0") or "0")
    names = _namespace(request).names(asked.get("prefix", ""), now_s=things(request).now_s())
    page = names[at : at + limit]
    cursor = str(at + limit) if at + limit < len(names) else ""
    return answer([{"name": name} for name in page], info={"count": len(page), "cursor": cursor})


async def put_many(request: web.Request) -> web.Response:
    held, now_s = _namespace(request), things(request).now_s()
    told = await _list(request)
    values = [_pair(each, now_s) for each in told]
    refused = [
        key
        for key, content, metadata, ttl_s in values
        if not held.put(key, content, metadata, ttl_s=ttl_s, now_s=now_s)
    ]
    return answer({"successful_key_count": len(values) - len(refused), "unsuccessful_keys": refused})


async def delete_many(request: web.Request) -> web.Response:
    held, now_s = _namespace(request), things(request).now_s()
    told = await _list(request)
    if not all(isinstance(name, str) for name in told):
        raise Refusal(400, 10001, "a name is no text")
    refused = [name for name in told if not held.delete(name, now_s=now_s)]
    return answer({"successful_key_count": len(told) - len(refused), "unsuccessful_keys": refused})


async def get_many(request: web.Request) -> web.Response:
    """Texts only: what is no UTF-8 is refused."""
    told = await body(request, keys=list, _type=str, _withMetadata=bool)
    if not 1 <= len(told["keys"]) <= MOST_READ_AT_ONCE:
        raise Refusal(400, 10057, f"{len(told['keys'])} keys: at most {MOST_READ_AT_ONCE} are read at once")
    held, now_s = _namespace(request), things(request).now_s()
    found = {key: held.get(key, now_s=now_s) for key in told["keys"]}
    try:
        return answer({"values": {key: None if v is None else v.decode() for key, v in found.items()}})
    except UnicodeDecodeError:
        raise Refusal(400, 10059, "a value is no text") from None


def _pair(told: Any, now_s: float) -> tuple[str, bytes, dict[str, Any], float | None]:
    known = {"key", "value", "base64", "expiration", "expiration_ttl", "metadata"}
    if not isinstance(told, dict) or not {"key", "value"} <= told.keys() <= known:
        raise Refusal(400, 10012, "a pair is no object of key and value")
    try:
        content = base64.b64decode(told["value"], validate=True) if told.get("base64") else told["value"].encode()
    except (binascii.Error, AttributeError):
        raise Refusal(400, 10012, "a value can't be decoded") from None
    metadata = told.get("metadata", {})
    _check_value(content, metadata)
    return _key(told["key"]), content, metadata, _ttl_s(told, now_s)


def _key(key: str) -> str:
    if key in ("", ".", ".."):
        raise Refusal(400, 10011, "key names must not be empty, . or ..")
    if len(key.encode()) > 512:
        raise Refusal(414, 10030, f"UTF-8 encoded length of {len(key.encode())} exceeds key length limit of 512")
    return key


def _ttl_s(told: dict[str, Any], now_s: float) -> float | None:
    """How long a value stays; None for ever."""
    if "expiration_ttl" not in told and "expiration" not in told:
        return None
    ttl_s = float(told["expiration_ttl"]) if "expiration_ttl" in told else float(told["expiration"]) - now_s
    if ttl_s < 60:
        raise Refusal(400, 10033, f"Invalid expiration_ttl of {ttl_s:g}. Expiration TTL must be at least 60.")
    return ttl_s


def _check_value(content: bytes, metadata: Any) -> None:
    if len(json.dumps(metadata, separators=(",", ":"))) > 1024:
        raise Refusal(413, 10031, "Metadata length exceeds limit of 1024")
    if len(content) > LARGEST_VALUE_BYTES:
        raise Refusal(413, 10032, f"Value length of {len(content)} exceeds limit of {LARGEST_VALUE_BYTES}")


async def _list(request: web.Request) -> list[Any]:
    content = await request.read()
    if request.content_type != "application/json" or len(content) > LARGEST_REQUEST_BYTES:
        raise Refusal(413, 10001, "a bulk call is JSON of at most 100 MB")
    try:
        told = json.loads(content)
    except ValueError:
        raise Refusal(400, 10001, "could not parse the JSON body") from None
    if not isinstance(told, list) or not 1 <= len(told) <= MOST_WRITTEN_AT_ONCE:
        raise Refusal(400, 10012, f"a bulk call takes 1 to {MOST_WRITTEN_AT_ONCE} items")
    return told


def _namespace(request: web.Request) -> Namespace:
    for namespace in things(request).namespaces:
        if namespace.id == request.match_info["namespace"]:
            return namespace
    raise Refusal(404, 10013, "namespace not found")
