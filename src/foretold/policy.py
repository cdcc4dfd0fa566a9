"""What may be done with a query: read, joined, written; and for how long its answer is good."""

from __future__ import annotations

from dataclasses import dataclass, replace

from foretold.contract.controls import Controls
from foretold.contract.freshness import Lifetimes
from foretold.contract.status import OTHER_REVISION
from foretold.ports import Asked


@dataclass(frozen=True, slots=True)
class Permit:
    """`forwarded` and `detail` are what Cache-Status says if the query goes to its origin."""

    may_read: bool
    may_join: bool
    may_write: bool
    forwarded: str
    detail: str | None = None

    @property
    def is_pass(self) -> bool:
        return not self.may_read and not self.may_write


_MAY_ALL = Permit(True, True, True, "uri-miss")
_MAY_WRITE = Permit(False, False, True, "request")


def permit(asked: Asked, controls: Controls, *, route_stores: bool, route_collapses: bool = True) -> Permit:
    if asked.passes is not None:
        return Permit(False, False, False, "bypass", asked.passes)
    if not route_stores:
        return Permit(False, False, False, "bypass", "route-stores-nothing")
    if controls.no_store:
        return Permit(False, False, False, "bypass", "no-store")
    allowed = _MAY_WRITE if controls.no_cache else _MAY_ALL
    if not route_collapses:
        allowed = replace(allowed, may_join=False)
    return allowed


def detail_of(controls: Controls, *, revision: str) -> str | None:
    """What Cache-Status says of a query, whatever becomes of it.

    That its model has another revision than the caller believes (rule U1), or an alias that could not be read (C3).
    """
    if controls.revision is not None and controls.revision != revision:
        return OTHER_REVISION
    return f"ignored-{controls.ignored_aliases[0]}" if controls.ignored_aliases else None


def lifetimes(of_route: Lifetimes, controls: Controls) -> Lifetimes:
    """The route's, with fresh_s lowered as far as the caller asked."""
    if controls.store_ttl_s is None or controls.store_ttl_s >= of_route.fresh_s:
        return of_route
    return replace(of_route, fresh_s=controls.store_ttl_s)
