"""R2 buckets, their lifecycle and their objects."""

from __future__ import annotations

import json
import re

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from tests.fakes.cloudflare_api.asking import answer, body, no_body, query, things
from tests.fakes.cloudflare_api.things import Bucket, Refusal


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/r2/buckets"
    return [
        web.get(base, list_buckets, allow_head=False),
        web.post(base, create),
        web.get(f"{base}/{{bucket}}", get, allow_head=False),
        web.delete(f"{base}/{{bucket}}", delete),
        web.get(f"{base}/{{bucket}}/lifecycle", get_lifecycle, allow_head=False),
        web.put(f"{base}/{{bucket}}/lifecycle", put_lifecycle),
        web.get(f"{base}/{{bucket}}/objects", list_objects, allow_head=False),
        web.get(f"{base}/{{bucket}}/objects/{{key:.+}}", get_object, allow_head=False),
        web.delete(f"{base}/{{bucket}}/objects/{{key:.+}}", delete_object),
    ]


async def list_buckets(request: web.Request) -> web.Response:
    query(request, "per_page", "cursor", "name_contains")
    _turned_on(request)
    return answer({"buckets": [_told(b) for b in things(request).buckets.values()]})


async def create(request: web.Request) -> web.Response:
    told = await body(request, name=str, _locationHint=str, _storageClass=str)
    _turned_on(request)
    name, held = told["name"], things(request).buckets
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", name):
        raise Refusal(400, 10005, "The specified bucket name is not valid.")
    if name in held:
        raise Refusal(409, 10004, "The bucket you tried to create already exists, and you own it.")
    held[name] = Bucket(name, [_own_rule()])
    return answer(_told(held[name]))


async def get(request: web.Request) -> web.Response:
    query(request)
    return answer(_told(_bucket(request)))


async def delete(request: web.Request) -> web.Response:
    await no_body(request)
    bucket = _bucket(request)
    if bucket.objects:
        raise Refusal(409, 10008, "The bucket you tried to delete is not empty.")
    del things(request).buckets[bucket.name]
    return answer({})


async def get_lifecycle(request: web.Request) -> web.Response:
    query(request)
    return answer({"rules": _bucket(request).lifecycle})


async def put_lifecycle(request: web.Request) -> web.Response:
    """The rules sent are all there are afterwards; checked by the SDK's types."""
    from cloudflare.types.r2.buckets.lifecycle_get_response import Rule

    told = await body(request, rules=list)
    try:
        for rule in told["rules"]:
            TypeAdapter(Rule).validate_json(json.dumps(rule), strict=True)
    except ValidationError as e:
        raise Refusal(400, 10062, f"The JSON you provided was not well formed: {e.errors()[0]['loc']}") from None
    names = [rule["id"] for rule in told["rules"]]
    if len(names) != len(set(names)):
        raise Refusal(400, 10063, "two lifecycle rules have one id")
    _bucket(request).lifecycle = told["rules"]
    return answer({})


async def list_objects(request: web.Request) -> web.Response:
    asked = query(request, "per_page", "cursor", "prefix", "delimiter", "start_after")
    size = int(asked.get("per_page", "1000"))
    keys = sorted(k for k in _bucket(request).objects if k > asked.get("cursor", ""))
    part = keys[:size]
    info = {"is_truncated": len(keys) > size, "cursor": part[-1] if len(keys) > size else "", "per_page": size}
    # In the order in which they were put there.
    when = {
        key: f"2026-11-30T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}Z"
        for at, key in enumerate(_bucket(request).objects)
    }
    return answer([{"key": key, "size": 1, "last_modified": when[key]} for key in part], info=info)


async def get_object(request: web.Request) -> web.Response:
    found = _bucket(request).objects.get(request.match_info["key"])
    if found is None:
        raise Refusal(404, 10007, "The specified key does not exist.")
    return web.Response(body=found, content_type="application/octet-stream")


async def delete_object(request: web.Request) -> web.Response:
    key = request.match_info["key"]
    if _bucket(request).objects.pop(key, None) is None:
        raise Refusal(404, 10007, "The specified key does not exist.")
    return answer({"key": key})


def _own_rule() -> dict[str, object]:
    """What Cloudflare gives every new bucket."""
    week = {"condition": {"type": "Age", "maxAge": 604800}}
    return {
        "id": "Default Multipart Abort Rule",
        "enabled": True,
        "conditions": {"prefix": ""},
        "abortMultipartUploadsTransition": week,
    }


def _told(bucket: Bucket) -> dict[str, str]:
    return {"name": bucket.name, "location": "WEUR", "storage_class": "Standard", "creation_date": "2026-11-30"}


def _turned_on(request: web.Request) -> None:
    if not things(request).has_r2:
        raise Refusal(403, 10042, "Please enable R2 through the Cloudflare Dashboard.")


def _bucket(request: web.Request) -> Bucket:
    _turned_on(request)
    found = things(request).buckets.get(request.match_info["bucket"])
    if found is None:
        raise Refusal(404, 10006, "The specified bucket does not exist.")
    return found
