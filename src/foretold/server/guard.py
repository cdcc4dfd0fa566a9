"""What a request must be before it is read: framing, Host, Origin, size of its head, credential (in that order)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from foretold.answers.answer import lines_of, raw
from foretold.contract.aliases import read_controls
from foretold.contract.controls import split_query
from foretold.contract.namespace import presented
from foretold.dialects.table import Dialects
from foretold.errors import Ambiguous, ForeignRequest, Refused, TooLarge
from foretold.memo import Head
from foretold.ports import Dialect, Request
from foretold.scope import Scope
from foretold.server.bodies import Bodies
from foretold.server.cors import cors

MAX_HEADERS = 100
MAX_HEAD_BYTES = 32 * 1024

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Doors:
    """Which Host names reach us (None: any, for a node open to a network) and which web pages may call."""

    hosts: frozenset[str] | None
    origins: frozenset[str]

    @staticmethod
    def of(*, bound_to: str, is_loopback: bool, hosts: Iterable[str], origins: Iterable[str]) -> Doors:
        named = frozenset(h.lower() for h in hosts)
        if not is_loopback and not named:
            return Doors(None, frozenset(origins))
        return Doors(named | _LOOPBACK_NAMES | {bound_to.lower()}, frozenset(origins))


class Guard:
    def __init__(self, doors: Doors, scope: Scope, dialects: Dialects, bodies: Bodies):
        self._doors = doors
        self._bodies = bodies
        self._scope = scope
        self._dialects = dialects

    def request_of(self, scope: dict[str, Any]) -> Request:
        """The request of an ASGI scope, its framing, Host and Origin accepted; its query string as received.

        Raises Refused.
        """
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        if len(headers) > MAX_HEADERS or sum(len(n) + len(v) for n, v in headers) > MAX_HEAD_BYTES:
            raise TooLarge(
                f"the head has {len(headers)} fields: at most {MAX_HEADERS} of {MAX_HEAD_BYTES} bytes together",
                code="head_too_large",
                status=431,
            )
        self._check_framing(headers)
        self._check_host([value for name, value in headers if name == "host"])
        for name, value in headers:
            if name == "origin":
                self.check_origin(value)
            elif name == "content-length":
                self._bodies.check_announced(value)
        return Request(
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
        )

    def head_of(self, request: Request) -> Head:
        """The head of a query: its caller known, its controls and its dialect read.  Raises Refused."""
        dialect = self._dialects.of(request.method, request.path)
        credentials = presented(request.headers)
        tenant = self._scope.tenant(credentials)
        in_query, query = split_query(request.query)
        chance = random.random()  # noqa: S311 - draws a sample, guards nothing
        controls = read_controls(request.headers, in_query, chance=chance)
        bare = Request(request.method, request.path, query, request.headers)
        own_credential = self._scope.own_credential(credentials)
        for_pages = raw(cors(request))
        return Head(
            request=bare,
            dialect=dialect,
            tenant=tenant,
            own_credential=own_credential,
            controls=controls,
            cors=for_pages,
            cors_lines=lines_of(for_pages),
            if_none_match=next((value for name, value in request.headers if name == "if-none-match"), None),
        )

    def dialect_or(self, request: Request | None, otherwise: Dialect) -> Dialect:
        """In whose words an error is told that came before, or instead of, a dialect."""
        try:
            return otherwise if request is None else self._dialects.of(request.method, request.path)
        except Refused:
            return otherwise

    def check_origin(self, origin: str) -> None:
        """Raises ForeignRequest for a web page that was not allowed: it could read a loopback service."""
        if origin in self._doors.origins:
            return
        raise ForeignRequest(
            f"the web page at {origin[:200]!r} may not call: add its origin to server.allowed_origins",
            code="foreign_origin",
        )

    def _check_host(self, hosts: list[str]) -> None:
        if len(hosts) != 1:
            raise Ambiguous(f"a request has one Host, this one has {len(hosts)}", code="bad_host")
        name = hosts[0].lower().rpartition(":")[0] if hosts[0].rpartition(":")[2].isdigit() else hosts[0].lower()
        if self._doors.hosts is not None and name not in self._doors.hosts:
            raise ForeignRequest(
                f"this node is not {hosts[0][:200]!r}: add the name to server.hosts", code="foreign_host", status=421
            )

    def _check_framing(self, headers: Iterable[tuple[str, str]]) -> None:
        lengths = [value for name, value in headers if name == "content-length"]
        transfer = [value.strip().lower() for name, value in headers if name == "transfer-encoding"]
        if len(lengths) > 1 or len(transfer) > 1 or (lengths and transfer) or transfer not in ([], ["chunked"]):
            raise Ambiguous("the body is framed in more than one way, or in one we don't know", code="bad_framing")
        for name, value in headers:
            if name == "content-encoding" and value.strip().lower() not in ("", "identity"):
                raise Refused(f"the body's coding is {value[:40]!r}: send it as it is", code="coded_body", status=415)
