"""Purges: one record is deleted, everything wider gets a new generation (rule G1)."""

from __future__ import annotations

from dataclasses import dataclass

from foretold.contract.generations import EVERYTHING, caller_tag, is_caller_tag
from foretold.contract.namespace import tenant_namespace
from foretold.errors import Refused, StoreError
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
        """Takes effect with the next request, in all processes of the data folder.  `tenant` names whose tag it is, as
        rule N1 writes tenants.

        Raises Refused for an unknown kind or a value that can't be one, StoreError if it could not be made to last.
        """
        tag = self._tag(kind, value, tenant)
        left: tuple[str, ...] = ()
        if tag is not None:
            await self._node.generations.renew([tag])
        else:
            left = await self._node.forget(value)
        await self._node.lease.announce(None if tag is not None else value)
        if left:
            raise StoreError(
                f"the record is gone here, but not from {' and '.join(left)}: nothing here says whose it is, which is "
                "part of its name there; purge its tag, model or namespace instead"
            )
        return Purged(kind, tag)

    def _tag(self, kind: str, value: str, tenant: str | None) -> str | None:
        match kind:
            case "everything":
                return EVERYTHING
            case "key" if _is_hex(value):
                return None
            case "namespace" if _is_hex(value):
                return f"namespace:{value}"
            case "tenant":
                return f"namespace:{self._namespace(value)}"
            case "tag" if is_caller_tag(value):
                return caller_tag(self._namespace("local:" if tenant is None else tenant), value)
            case "model" | "revision" if value:
                return f"{kind}:{value}"
        if kind not in KINDS:
            raise Refused(
                f"nothing is purged by {kind[:40]!r}: known are {', '.join(KINDS)}", param=kind, code="bad_purge"
            )
        raise Refused(f"{kind} is {value[:80]!r}: give {_WANTED[kind]}", param=kind, code="bad_purge")

    def _namespace(self, tenant: str) -> str:
        """Raises Refused for what rule N1 doesn't write."""
        if tenant != "local:" and not any(
            tenant.startswith(f"{kind}:") and tenant != f"{kind}:" for kind in ("tenant", "credential", "shared")
        ):
            raise Refused(
                f"tenant is {tenant[:80]!r}: write tenant:NAME, credential:TEXT, shared:ROUTE or local:",
                param="tenant",
                code="bad_purge",
            )
        return tenant_namespace(self._secret, tenant)


_WANTED = {
    "key": "the 64 hex digits of Cache-Status",
    "namespace": "its 64 hex digits",
    "tag": "1 to 64 of a-z 0-9 _ . : -",
    "model": "a model's name",
    "revision": "a revision, as `foretold cache get` shows it",
}


def _is_hex(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdef" for c in text)
