"""The account's KV namespaces as workerd asks for them at run time: its own dialect of HTTP, the rules of the REST face."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.cloudflare_api.kv import LARGEST_VALUE_BYTES
from tests.fakes.cloudflare_api.things import Namespace

if TYPE_CHECKING:
    from tests.fakes.cloudflare_api.server import CloudflareApi


class RuntimeKv:
    def __init__(self, api: CloudflareApi):
        self._api = api
        app = web.Application(client_max_size=LARGEST_VALUE_BYTES + 2**20)
        app.router.add_post("/bulk/get", self._many)
        app.router.add_get("/{key:.+}", self._get, allow_head=False)
        app.router.add_put("/{key:.+}", self._put)
        app.router.add_delete("/{key:.+}", self._delete)
        self._runner = web.AppRunner(app, access_log=None)

    async def __aenter__(self) -> RuntimeKv:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._runner.addresses[0][1]}"

    def _namespace(self, request: web.Request) -> Namespace:
        wanted = request.headers["x-kv-namespace"]
        found = next((n for n in self._api.things.namespaces if n.id == wanted), None)
        if found is None:
            raise web.HTTPNotFound(text="namespace not found")
        return found

    async def _get(self, request: web.Request) -> web.Response:
        if int(request.query.get("cache_ttl", "60")) < 30:
            raise web.HTTPBadRequest(text="Invalid cache_ttl: it must be at least 30")
        held, key = self._namespace(request), request.match_info["key"]
        content = held.get(key, now_s=self._now_s())
        if content is None:
            raise web.HTTPNotFound
        metadata = held.values[key][1]
        return web.Response(body=content, headers={"CF-KV-Metadata": json.dumps(metadata)} if metadata else {})

    async def _many(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if len(asked["keys"]) > 100:
            raise web.HTTPBadRequest(text="You can request a maximum of 100 keys")
        held = self._namespace(request)
        told: dict[str, Any] = {}
        for key in asked["keys"]:
            found = held.get(key, now_s=self._now_s())
            content = found.decode() if found is not None else None
            told[key] = json.loads(content) if content is not None and asked.get("type") == "json" else content
        return web.json_response(told)

    async def _put(self, request: web.Request) -> web.Response:
        asked, key = request.query, request.match_info["key"]
        if len(key.encode()) > 512:
            raise web.HTTPRequestURITooLong(text="key over 512 bytes")
        now_s, ttl_s = self._now_s(), None
        if "expiration_ttl" in asked:
            ttl_s = float(asked["expiration_ttl"])
        elif "expiration" in asked:
            ttl_s = float(asked["expiration"]) - now_s
        # A moment has gone by since it was asked.
        if ttl_s is not None and ttl_s < 59:
            raise web.HTTPBadRequest(text="Invalid expiration_ttl: it must be at least 60")
        told = request.headers.get("CF-KV-Metadata", "null")
        content = await request.read()
        if len(content) > LARGEST_VALUE_BYTES or len(told) > 1024:
            raise web.HTTPRequestEntityTooLarge(max_size=LARGEST_VALUE_BYTES, actual_size=len(content))
        if not self._namespace(request).put(key, content, json.loads(told) or {}, ttl_s=ttl_s, now_s=now_s):
            raise web.HTTPTooManyRequests(text="too many writes to one key")
        return web.Response()

    async def _delete(self, request: web.Request) -> web.Response:
        """Never refused: whether production counts it as a write of the key is told nowhere."""
        self._namespace(request).values.pop(request.match_info["key"], None)
        return web.Response()

    def _now_s(self) -> float:
        return self._api.things.now_s()
