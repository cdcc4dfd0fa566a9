"""The paths under `/-/`: two are open, all others ask for the admin token.

One table names every path, its method and whether it is open; a test walks it.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from foretold import __version__
from foretold.contract.freshness import CEILING_S
from foretold.dialects.problem import problem
from foretold.errors import BadCredential, ForetoldError, NotFound, Refused
from foretold.models.managing import Managing
from foretold.node import Node
from foretold.observe.metrics import CONTENT_TYPE, metrics
from foretold.ports import Request
from foretold.purging import KINDS, Purging
from foretold.server.bodies import Bodies, Receive

Reply = tuple[int, list[tuple[str, str]], bytes]


@dataclass(frozen=True, slots=True)
class Door:
    method: str
    path: str
    is_open: bool
    answer: Callable[[Request, bytes], Awaitable[Reply]]


class Admin:
    def __init__(
        self,
        node: Node,
        purging: Purging,
        bodies: Bodies,
        *,
        token: str,
        is_ready: Callable[[], bool],
        stats: Callable[[], Awaitable[dict[str, Any]]],
        reload: Callable[[], Awaitable[dict[str, object]]],
        models: Managing,
    ):
        """`stats` tells the counts of the whole node, whichever process of it is asked.

        `reload` reads the settings anew and says what changed; it raises ConfigError.
        """
        self._node = node
        self._purging = purging
        self._bodies = bodies
        self._token = token.encode()
        self._is_ready = is_ready
        self._tell_stats = stats
        self._reload = reload
        self._managing = models
        self.doors = (
            Door("GET", "/-/health", True, self._health),
            Door("GET", "/-/ready", True, self._ready),
            Door("GET", "/-/stats", False, self._stats),
            Door("GET", "/-/metrics", False, self._metrics),
            Door("GET", "/-/cache/record", False, self._record),
            Door("POST", "/-/cache/purge", False, self._purge),
            Door("POST", "/-/config/reload", False, self._reloaded),
            Door("GET", "/-/models", False, self._models),
            Door("POST", "/-/models/load", False, self._load),
            Door("POST", "/-/models/unload", False, self._unload),
            Door("POST", "/-/models/promote", False, self._promote),
        )

    async def answer(self, request: Request, receive: Receive) -> Reply:
        """Never raises ForetoldError: what goes wrong is told as a problem."""
        try:
            door = self._door(request)
            if not door.is_open:
                self._check_token(request)
            body = await self._bodies.read(receive) if request.method == "POST" else b""
            try:
                return await door.answer(request, body)
            finally:
                self._bodies.release(len(body))
        except ForetoldError as error:
            kind, told = problem(error)
            status = error.status_here if isinstance(error, Refused) else error.status
            return status, _headers(kind), told

    def _door(self, request: Request) -> Door:
        here = [door for door in self.doors if door.path == request.path]
        if not here:
            known = ", ".join(door.path for door in self.doors)
            raise NotFound(f"there is no {request.path[:100]}: known are {known}", code="unknown_path")
        method = "GET" if request.method == "HEAD" else request.method
        for door in here:
            if door.method == method:
                return door
        raise Refused(f"{request.path} is asked by {here[0].method}", code="method_not_allowed", status=405)

    def _check_token(self, request: Request) -> None:
        given = next((value for name, value in request.headers if name == "authorization"), "")
        if not hmac.compare_digest(given.removeprefix("Bearer ").strip().encode(), self._token):
            raise BadCredential("this path needs the admin token of the data folder, as `Authorization: Bearer …`")

    async def _health(self, request: Request, body: bytes) -> Reply:
        return _json({"status": "ok", "version": __version__})

    async def _ready(self, request: Request, body: bytes) -> Reply:
        ready = self._is_ready()
        return _json({"ready": ready}, status=200 if ready else 503)

    async def _stats(self, request: Request, body: bytes) -> Reply:
        return _json(await self._tell_stats())

    async def _metrics(self, request: Request, body: bytes) -> Reply:
        text = metrics(await self._tell_stats())
        return 200, _headers(CONTENT_TYPE), text

    async def _record(self, request: Request, body: bytes) -> Reply:
        key = request.query.removeprefix("key=")
        found = await self._node.tiers.by_key(key)
        if found is None:
            raise NotFound(f"no record is kept under {key[:64]!r}", code="no_record")
        tier, record, body_bytes = found
        return _json({"tier": tier, "body_bytes": body_bytes, "record": record})

    async def _purge(self, request: Request, body: bytes) -> Reply:
        kind, value, tenant = purge_asked(body)
        purged = await self._purging.purge(kind, value, tenant=tenant)
        return _json({"purged": purged.kind, "tag": purged.tag})

    async def _reloaded(self, request: Request, body: bytes) -> Reply:
        return _json(await self._reload())

    async def _models(self, request: Request, body: bytes) -> Reply:
        return _json(await self._managing.list())

    async def _load(self, request: Request, body: bytes) -> Reply:
        asked = model_asked(body, "keep_alive")
        return _json(await self._managing.load(asked["model"], keep_alive_of(asked)))

    async def _unload(self, request: Request, body: bytes) -> Reply:
        return _json(await self._managing.unload(model_asked(body)["model"]))

    async def _promote(self, request: Request, body: bytes) -> Reply:
        asked = model_asked(body, "revision")
        return _json(await self._managing.promote(asked["model"], revision_of(asked)))


def model_asked(body: bytes, *more: str) -> dict[str, Any]:
    """What is asked of a model, and which one; `more` may stand beside its name.  Raises Refused."""
    known = ("model", *more)
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        asked = None
    if not isinstance(asked, dict) or not isinstance(asked.get("model"), str) or set(asked) - set(known):
        raise Refused(
            f'give a JSON object such as {{"model": "smollm2-135m"}}; known members are {", ".join(known)}',
            code="bad_model_request",
        )
    return asked


def keep_alive_of(asked: dict[str, Any]) -> float | None:
    """How long a model is kept once it is loaded.  Raises Refused."""
    keep_alive_s = asked.get("keep_alive")
    if keep_alive_s is not None and (
        type(keep_alive_s) not in (int, float) or not (keep_alive_s == -1 or 0 <= keep_alive_s <= CEILING_S)
    ):
        raise Refused(
            f"keep_alive is no number of seconds from 0 to {CEILING_S}, nor -1 for as long as there is room",
            param="keep_alive",
            code="bad_model_request",
        )
    return keep_alive_s


def revision_of(asked: dict[str, Any]) -> str:
    """The revision that is given, or none.  Raises Refused."""
    revision = asked.get("revision")
    if revision is None:
        return ""
    if not isinstance(revision, str) or not re.fullmatch("[0-9a-f]{64}", revision):
        raise Refused(
            "revision is none: give the digest of a manifest, 64 hex digits, as `foretold models show` tells it",
            param="revision",
            code="bad_model_request",
        )
    return revision


def purge_asked(body: bytes) -> tuple[str, str, str | None]:
    """What a purge names, its value, and whose tag it is if it says so.  Raises Refused, naming the member."""
    asked: dict[str, Any] = {}
    for name, value in _members(body):
        if name in asked:
            raise Refused(f"{name[:40]!r} stands in the purge twice", param=name[:40], code="bad_purge")
        if name not in (*KINDS, "of_tenant"):
            known = ", ".join(KINDS)
            raise Refused(f"nothing is purged by {name[:40]!r}: known are {known}", param=name[:40], code="bad_purge")
        if name == "everything" and value is not True:
            raise Refused('everything is purged by {"everything": true} alone', param=name, code="bad_purge")
        if name != "everything" and not isinstance(value, str):
            raise Refused(f"{name} is no text: give one", param=name, code="bad_purge")
        asked[name] = value
    tenant = asked.pop("of_tenant", None)
    if len(asked) != 1:
        raise Refused(
            f"the purge names {' and '.join(asked) or 'nothing'}: name one of {', '.join(KINDS)}", code="bad_purge"
        )
    kind, value = next(iter(asked.items()))
    if tenant is not None and kind != "tag":
        raise Refused(f"of_tenant says whose tag it is: {kind} takes none", param="of_tenant", code="bad_purge")
    return kind, "" if value is True else value, tenant


def _members(body: bytes) -> list[tuple[str, Any]]:
    """The members of a JSON object, those named twice too."""
    try:
        orjson.loads(body)  # stricter than the other: no NaN, no lone surrogates
        members = json.loads(body, object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, _Members):
        raise Refused('a purge is a JSON object such as {"model": "…"}', code="bad_purge")
    return members


class _Members(list[tuple[str, Any]]):
    """Those of one object."""


def _json(value: object, *, status: int = 200) -> Reply:
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"
    return status, _headers("application/json"), body


def _headers(kind: str) -> list[tuple[str, str]]:
    return [("content-type", kind), ("cache-control", "no-store")]
