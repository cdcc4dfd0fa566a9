"""Tails: what a Worker logs, by websocket, to those who listen just now."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.cloudflare_api.asking import answer, no_body, things
from tests.fakes.cloudflare_api.things import Refusal, identity

PROTOCOL = "trace-v1"


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/workers/scripts/{{script}}/tails"
    return [
        web.post(base, begin),
        web.delete(f"{base}/{{tail}}", end),
        web.get("/tail/{tail}", listen, allow_head=False),
    ]


async def begin(request: web.Request) -> web.Response:
    held, script = things(request), request.match_info["script"]
    await request.read()
    if script not in held.scripts:
        raise Refusal(404, 10007, "This Worker does not exist on your account.")
    tail_id = identity("tail", script, str(len(held.tails)))
    held.tails[tail_id] = (script, asyncio.Queue())
    url = f"ws://{request.host}/tail/{tail_id}"
    return answer({"id": tail_id, "url": url, "expires_at": "2026-12-01T02:00:00Z"})


async def end(request: web.Request) -> web.Response:
    await no_body(request)
    if things(request).tails.pop(request.match_info["tail"], None) is None:
        raise Refusal(404, 10057, "tail not found")
    return answer(None)


async def listen(request: web.Request) -> web.StreamResponse:
    """Events as they come; only for who speaks the protocol and says hello."""
    found = things(request).tails.get(request.match_info["tail"])
    if found is None or PROTOCOL not in request.headers.get("sec-websocket-protocol", ""):
        return web.Response(status=400)
    socket = web.WebSocketResponse(protocols=(PROTOCOL,))
    await socket.prepare(request)
    hello = await socket.receive()
    if hello.type != WSMsgType.TEXT or "debug" not in json.loads(hello.data):
        await socket.close(code=1002)
        return socket
    telling = asyncio.create_task(_tell(socket, found[1]))
    # Until either side closes: what the listener sends is its goodbye.
    while (await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
        pass
    telling.cancel()
    return socket


async def _tell(socket: web.WebSocketResponse, events: asyncio.Queue[dict[str, Any] | None]) -> None:
    while (event := await events.get()) is not None:
        # As production does: JSON in a binary message.
        await socket.send_bytes(json.dumps(event).encode())
    await socket.close(code=1001)
