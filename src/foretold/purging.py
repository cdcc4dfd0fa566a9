"""Purges: one record is deleted, everything wider gets a new generation (rule G1)."""

from __future__ import annotations

from dataclasses import dataclass

from foretold.contract.generations import EVERYTHING, caller_tag, is_caller_tag
from foretold.contract.namespace import tenant_namespace
from foretold.errors import Refused
from foretold.node import Node

KINDS = ("key", "tag", "model", "revision", "namespace", "tenant", "everything")


@dataclass(frozen=True, slots=True)
class Purged:
    """`tag` is the one renewed, None where a single record was deleted."""

    kind: str
    tag: str | None


class Purging:
    def __init__(self, node: Node, secret: bytes):
        self._node = node
        self._secret = secret

    async def purge(self, kind: str, value: str, *, tenant: str | None = None) -> Purged:
        """Takes effect with the next request.  `tenant` names whose tag it is, as rule N1 writes tenants.

        Raises Refused for an unknown kind or a value that can't be one, StoreError if it could not be made to last.
        """
        tag = self._tag(kind, value, tenant)
        if tag is not None:
            await self._node.generations.renew([tag])
        else:
            self._node.flights.forget(value)
            await self._node.keeping.forget(value)
        return Purged(kind, tag)

    def _tag(self, kind: str, value: str, tenant: str | None) -> str | None:
        match kind:
            case "everything":
                return EVERYTHING
            case "key" if _is_hex(value):
                return None
            case "namespace" if _is_hex(value):
                return f"namespace:{value}"
            case "tenant" if value:
                return f"namespace:{tenant_namespace(self._secret, value)}"
            case "tag" if is_caller_tag(value):
                return caller_tag(tenant_namespace(self._secret, tenant or "local:"), value)
            case "model" | "revision" if value:
                return f"{kind}:{value}"
        if kind not in KINDS:
            raise Refused(
                f"nothing is purged by {kind[:40]!r}: known are {', '.join(KINDS)}", param=kind, code="bad_purge"
            )
        raise Refused(f"{value[:80]!r} is no {kind}", param=kind, code="bad_purge")


def _is_hex(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdef" for c in text)
