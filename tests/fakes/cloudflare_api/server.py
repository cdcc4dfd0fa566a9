"""The door: who asks, may they, how often; every call is recorded, and any can be made to fail or to break off."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes.cloudflare_api import assets, kv, r2, tails, workers, wrangler_calls, zones
from tests.fakes.cloudflare_api.asking import THINGS, answer
from tests.fakes.cloudflare_api.things import ACCOUNT_ID, Refusal, Things, Token

ROOT = "/client/v4"
CALLS_IN_FIVE_MINUTES = 1200
LONGEST_WAIT_S = 60

# The permission that a path needs, as the name of a group without its last word.
_NEEDS = (
    (r"/user/tokens/verify|/accounts/\w+/tokens/verify", ""),
    (r"/user/tokens/\w+", "API Tokens"),
    (r"/accounts/\w+/storage/kv/.*", "Workers KV Storage"),
    (r"/accounts/\w+/r2/.*", "Workers R2 Storage"),
    (r"/accounts/\w+/workers/scripts/[^/]+/tails.*", "Workers Tail"),
    (r"/accounts/\w+/workers/.*", "Workers Scripts"),
    (r"/zones/\w+/workers/routes.*", "Workers Routes"),
    (r"/zones/\w+/dns_records", "DNS"),
    (r"/zones/\w+", "Zone"),
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    status: int

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


@dataclass
class _Trouble:
    """At the call of this number, counted from when it was ordered."""

    at: int
    what: Refusal | str


class CloudflareApi:
    def __init__(self) -> None:
        self.begin_anew()
        self._app = web.Application(middlewares=[self._door], client_max_size=128 * 2**20)
        self._app[THINGS] = lambda: self.things
        for part in (assets, kv, r2, tails, workers, wrangler_calls, zones):
            self._app.router.add_routes(part.routes(ROOT))
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=0.1)
        self._port = 0

    def begin_anew(self) -> None:
        """An empty account, no call made, no trouble ordered."""
        self.things = Things()
        self.calls: list[Call] = []
        self.calls_left = CALLS_IN_FIVE_MINUTES
        self._troubles: list[_Trouble] = []
        self._held: dict[int, asyncio.Event] = {}
        self._counted = 0
        self._news = asyncio.Condition()
        self._may_answer = asyncio.Event()
        self._may_answer.set()
        # What the next reads of values are answered with instead; None for what is there.
        self.garbage: bytes | None = None
        self.is_cutting = False

    @property
    def is_hanging(self) -> bool:
        """While it is set, calls are taken and not answered."""
        return not self._may_answer.is_set()

    @is_hanging.setter
    def is_hanging(self, is_so: bool) -> None:
        if is_so:
            self._may_answer.clear()
        else:
            self._may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{ROOT}"

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.is_write]

    async def called(self, method: str, ending: str) -> Call:
        """The first call of this kind, once there is one that was answered."""

        def found() -> Call | None:
            return next((c for c in self.calls if c.method == method and c.path.endswith(ending)), None)

        async with asyncio.timeout(LONGEST_WAIT_S), self._news:
            await self._news.wait_for(found)
        call = found()
        assert call is not None
        return call

    def hold(self, at: int) -> asyncio.Event:
        """The call of this number is not answered, and not even looked at, before the event is set."""
        self._held[self._counted + at] = asyncio.Event()
        return self._held[self._counted + at]

    async def holding(self) -> None:
        """Returns once a call is held."""
        async with asyncio.timeout(LONGEST_WAIT_S), self._news:
            await self._news.wait_for(lambda: self._counted in self._held)

    def log(self, script: str, event: dict[str, Any] | None) -> None:
        """Tells those who listen to a Worker of one run; None ends what they hear."""
        for name, queue in self.things.tails.values():
            if name == script:
                queue.put_nowait(event)

    def fail(self, at: int, *, status: int, code: int, message: str = "something is wrong") -> None:
        """The call of this number, the next being 1, is refused."""
        self._troubles.append(_Trouble(self._counted + at, Refusal(status, code, message)))

    def cut_before(self, at: int) -> None:
        """The call of this number is not even looked at, and its connection breaks."""
        self._troubles.append(_Trouble(self._counted + at, "before"))

    def cut_after(self, at: int) -> None:
        """The call of this number takes effect, and its connection breaks before the answer."""
        self._troubles.append(_Trouble(self._counted + at, "after"))

    def pretend(self, at: int) -> None:
        """The call of this number is answered as if it had taken effect."""
        self._troubles.append(_Trouble(self._counted + at, "pretend"))

    async def __aenter__(self) -> CloudflareApi:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @web.middleware
    async def _door(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith("/tail/"):
            return await handler(request)
        self._counted += 1
        if held := self._held.get(self._counted):
            async with self._news:
                self._news.notify_all()
            await held.wait()
        await self._may_answer.wait()
        trouble = next((t.what for t in self._troubles if t.at == self._counted), None)
        if trouble == "before":
            return self._cut(request)
        content = await request.read()
        try:
            if isinstance(trouble, Refusal):
                raise trouble
            self._admit(request)
            response = answer({"id": "x"}) if trouble == "pretend" else await handler(request)
        except Refusal as refusal:
            response = _refused(refusal)
        except web.HTTPNotFound:
            response = _refused(Refusal(404, 7000, "No route for that URI"))
        except web.HTTPMethodNotAllowed:
            response = _refused(Refusal(405, 7001, f"Method {request.method} not available for that URI."))
        path = request.path.removeprefix(ROOT)
        self.calls.append(Call(request.method, path, dict(request.query), content, response.status))
        async with self._news:
            self._news.notify_all()
        if self.garbage is not None and "/values/" in path and request.method == "GET":
            response = web.Response(body=self.garbage)
        if self.is_cutting and request.method == "GET":
            return await self._cut_in_the_middle(request, response)
        return self._cut(request) if trouble == "after" else response

    def _admit(self, request: web.Request) -> None:
        if self.calls_left <= 0:
            raise Refusal(429, 971, "Please wait and consider throttling your request speed")
        self.calls_left -= 1
        path = request.path.removeprefix(ROOT)
        if re.fullmatch(assets.UPLOAD, path):
            assets.session_of(self.things, request.headers.get("authorization", ""))
            return
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not text:
            raise Refusal(400, 6003, "Invalid request headers")
        token = self.things.tokens.get(text)
        if token is None or token.status != "active":
            raise Refusal(401, 1000, "Invalid API Token")
        if not self._may(token, request.method, path):
            raise Refusal(403, 10000, "Authentication error")

    def _may(self, token: Token, method: str, path: str) -> bool:
        group = next((group for pattern, group in _NEEDS if re.fullmatch(pattern, path)), None)
        if group is None:
            return True
        parts = path.split("/")
        if parts[1] == "accounts" and parts[2] != token.account_id:
            return False
        if parts[1] == "zones" and parts[2] not in token.zone_ids:
            return False
        if not group:
            return True
        may = {f"{group} Write"} | ({f"{group} Read"} if method == "GET" else set())
        if group == "Workers Tail":
            may = {"Workers Tail Read", "Workers Scripts Write"}
        if method == "PUT" and path == f"/accounts/{ACCOUNT_ID}/workers/domains":
            return {"Workers Scripts Write", "Workers Routes Write"} <= token.permissions
        return bool(may & token.permissions)

    async def _cut_in_the_middle(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """All of the head, half of the body."""
        assert isinstance(response, web.Response)
        whole = response.body if isinstance(response.body, bytes) else b""
        half = web.StreamResponse(status=response.status, headers={"content-length": str(len(whole))})
        await half.prepare(request)
        await half.write(whole[: len(whole) // 2])
        self._cut(request)
        return half

    def _cut(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()


def _refused(refusal: Refusal) -> web.Response:
    told: dict[str, Any] = {
        "success": False,
        "errors": [{"code": refusal.code, "message": refusal.message}],
        "messages": [],
        "result": None,
    }
    headers = {"retry-after": "1"} if refusal.status == 429 else {}
    return web.json_response(told, status=refusal.status, headers=headers)
