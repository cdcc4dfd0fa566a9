"""From the raw bytes of a request to what it was found to ask, for those who repeat themselves.

Two levels: a head, once all guards have accepted it, and a body *within that head*.  Everything that the key depends
on is in one of the two or fixed for the memo's life; it is thrown away whole when configuration, catalogue or
credentials change.  Bounded by halves: when the young half is full it becomes the old one, and the old is forgotten.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from foretold.answers.answer import RawHeaders
from foretold.contract.controls import Controls
from foretold.contract.query import Query
from foretold.contract.status import OTHER_REVISION, CacheStatus
from foretold.halves import Halves
from foretold.ports import Dialect, Request
from foretold.routes import Route
from foretold.scope import Namespaces

LONGEST_BODY_KEPT = 4096
# Measured by bench/memory.py: what is remembered of a body beside itself.
NAMED_BYTES = 850
PLAIN_BYTES = 250
# What is remembered of a head beside its fields, which are there as bytes, as texts and as what was read of them.
HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """A request's head after all guards; no two have the same `number`.

    `own_credential` names the header that a route may pass to its upstream; `cors` are the headers that a web page
    which was let in needs with every answer.  `counting` remembers the headers that count, by operation and route.
    """

    request: Request
    dialect: Dialect
    tenant: str
    own_credential: str | None
    controls: Controls
    cors: RawHeaders = ()
    cors_lines: bytes = b""
    if_none_match: str | None = None
    counting: dict[tuple[str, Route], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    number: int = field(default_factory=itertools.count().__next__)


class Plain(NamedTuple):
    """A head that its bytes tell whole, and the announced length of its body."""

    head: Head
    body_bytes: int


class Named(msgspec.Struct, frozen=True, eq=False):
    """A query with its key, and what the hit path needs to answer it.

    Answers for the same place (streamed, usage, is_safe, detail, projection) look the same.
    """

    key: str
    query: Query
    namespaces: Namespaces
    route: Route
    controls: Controls
    method: str
    is_safe: bool
    streamed: bool
    usage: bool
    if_none_match: str | None
    place: tuple[bool, bool, bool, str | None, str | None]

    @property
    def detail(self) -> str | None:
        return self.place[3]

    def status(self, forwarded: str) -> CacheStatus:
        """What is said if it goes to its origin."""
        return CacheStatus(
            forwarded=forwarded,
            key=None if self.route.shared else self.key,
            detail=self.detail,
            other_revision=self.is_other_revision,
        )

    @property
    def is_other_revision(self) -> bool:
        """Whether the caller believes in another revision than answers."""
        return self.detail == OTHER_REVISION

    @property
    def projection(self) -> str | None:
        return self.place[4]

    @property
    def own_bytes(self) -> int:
        """What callers can make long of it."""
        query = self.query
        headers = sum(len(name) + len(value) for name, value in query.headers) if query.headers else 0
        return len(query.model) + len(query.query) + headers + len(self.if_none_match or "")


class Memo:
    def __init__(self, *, head_bytes: int = 16 * 1024 * 1024, body_bytes: int = 32 * 1024 * 1024):
        self._heads: Halves[Head] = Halves(head_bytes // 2)
        self._plain: Halves[Plain] = Halves(head_bytes // 2)
        self._named: Halves[Named] = Halves(body_bytes)
        self._salt = secrets.token_bytes(32)

    def head(self, place: object) -> Head | None:
        """The accepted head of this place: a hashable that holds all that guards and names depend on."""
        return self._heads.get(place)

    def keep_head(self, place: object, head: Head) -> None:
        """Remembers an accepted head, so that it needn't be accepted again until `clear`."""
        fields_bytes = sum(len(name) + len(value) for name, value in head.request.headers)
        self._heads.put(place, head, cost=HEAD_BYTES + 3 * fields_bytes)

    def plain(self, raw: bytes) -> Plain | None:
        """What is known of a head by its bytes alone."""
        return self._plain.get(raw)

    def keep_plain(self, raw: bytes, plain: Plain) -> None:
        self._plain.put(raw, plain, cost=len(raw) + PLAIN_BYTES)

    def named(self, head: Head, body: bytes) -> Named | None:
        # By the head's number, so that what is remembered of a body doesn't keep a forgotten head in memory.
        return self._named.get((head.number, body if len(body) <= LONGEST_BODY_KEPT else self._mark(body)))

    def keep_named(self, head: Head, body: bytes, named: Named) -> None:
        cost = min(len(body), LONGEST_BODY_KEPT) + NAMED_BYTES + named.own_bytes
        if named.own_bytes <= LONGEST_BODY_KEPT:
            self._named.put(
                (head.number, body if len(body) <= LONGEST_BODY_KEPT else self._mark(body)), named, cost=cost
            )

    def clear(self) -> None:
        self._heads.clear()
        self._plain.clear()
        self._named.clear()

    def _mark(self, body: bytes) -> object:
        """Of a long body a keyed digest that nobody can aim at; a short one is compared in full."""
        return len(body), hashlib.blake2b(body, key=self._salt).digest()
