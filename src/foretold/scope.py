"""From a caller's credentials to the namespace of its answers (rule N1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foretold.contract.namespace import (
    Credentials,
    child_namespace,
    ignoring_label,
    tenant_namespace,
    tenant_of,
)
from foretold.halves import Halves

_KNOWN_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Namespaces:
    """A tenant's namespace and those below it that the request asked for, widest first; answers live in the last."""

    chain: tuple[str, ...]

    @property
    def tenant(self) -> str:
        return self.chain[0]

    @property
    def own(self) -> str:
        return self.chain[-1]


class Scope:
    def __init__(self, secret: bytes, *, tenants: Mapping[str, str] | None):
        """`tenants`: hex SHA-256 of each API key → tenant; None where no API keys are set."""
        self._secret = secret
        self._tenants = dict(tenants) if tenants is not None else None
        self._known: Halves[Namespaces] = Halves(8 * 2**20)

    @property
    def has_api_keys(self) -> bool:
        return self._tenants is not None

    def tenant(self, credentials: Credentials) -> str:
        """Who is asking.  Raises BadCredential where API keys are set and none of them was presented."""
        return tenant_of(credentials, tenants=self._tenants)

    def own_credential(self, credentials: Credentials) -> str | None:
        """The header with the caller's own credential for an upstream; never one that opens this node."""
        if self.has_api_keys and not credentials.gateway:
            return None
        return credentials.other_header or None

    def namespaces(
        self,
        tenant: str,
        children: tuple[str, ...] = (),
        ignored: tuple[str, ...] = (),
        *,
        shared_route: str | None = None,
    ) -> Namespaces:
        """Whose answers may serve an authenticated tenant on a route; a caller's labels only narrow.

        `children` and `ignored` are those of its controls.
        """
        asked = (tenant, children, ignored, shared_route)
        found = self._known.get(asked)
        if found is None:
            found = self._derived(tenant if shared_route is None else f"shared:{shared_route}", children, ignored)
            self._known.put(asked, found, cost=_KNOWN_BYTES + sum(map(len, (tenant, *children, *ignored))))
        return found

    def _derived(self, whose: str, children: tuple[str, ...], ignored: tuple[str, ...]) -> Namespaces:
        chain = [tenant_namespace(self._secret, whose)]
        api_keys_tenant, _, beside = whose.partition("\n")
        if beside and whose.startswith("tenant:"):
            # A purge of the API key's tenant reaches what was asked with a credential beside it.
            chain.insert(0, tenant_namespace(self._secret, api_keys_tenant))
        for label in (*children, ignoring_label(ignored)) if ignored else children:
            chain.append(child_namespace(self._secret, chain[-1], label))
        return Namespaces(tuple(chain))
