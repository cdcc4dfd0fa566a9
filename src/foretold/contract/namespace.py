"""Whose answers these are (rules N1 and N2)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from foretold.errors import BadCredential, Refused

CREDENTIAL_HEADERS = ("authorization", "x-api-key", "api-key")
GATEWAY_HEADER = "cf-aig-authorization"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller presented: at most one API key for a gateway, at most one credential beside it."""

    gateway: str = ""
    other: str = ""
    other_header: str = ""

    @property
    def text(self) -> str:
        """Both, a line feed between, or the one there is."""
        return "\n".join(part for part in (self.gateway, self.other) if part)


def presented(headers: Iterable[tuple[str, str]]) -> Credentials:
    """The credentials among headers; names in any case, `Bearer` in any case.

    One credential in several headers counts as the first of CREDENTIAL_HEADERS.  Raises Refused(400) if two different
    ones are given.
    """
    given = [(name.lower(), _token(value)) for name, value in headers]
    gateway = {token: GATEWAY_HEADER for name, token in given if name == GATEWAY_HEADER and token}
    other: dict[str, str] = {}
    for header in CREDENTIAL_HEADERS:
        for name, token in given:
            if name == header and token:
                other.setdefault(token, name)
    if len(gateway) > 1 or len(other) > 1:
        names = ", ".join(sorted({*gateway.values(), *other.values()}))
        raise Refused(f"two different credentials in {names}: send one", code="two_credentials", status=400)
    gateway_token = next(iter(gateway), "")
    other_token, other_header = next(iter(other.items()), ("", ""))
    return Credentials(gateway_token, other_token, other_header)


def tenant_namespace(secret: bytes, tenant: str) -> str:
    """Hex HMAC of a tenant: `tenant:NAME`, `credential:TEXT`, `local:` or `shared:ROUTE`."""
    return hmac.new(secret, b"namespace\n" + tenant.encode(), hashlib.sha256).hexdigest()


def child_namespace(secret: bytes, parent: str, label: str) -> str:
    """A narrower namespace under a parent's; no caller's label holds a line feed (controls.is_label)."""
    return hmac.new(secret, f"{parent}\n{label}".encode(), hashlib.sha256).hexdigest()


def ignoring_label(names: Iterable[str]) -> str:
    """The label of the child namespace in which these body members don't count (rule C3), each once, sorted.

    The line feed keeps it apart from every label a caller can give.
    """
    return "ignore\n" + "\n".join(sorted(set(names)))


def tenant_of(credentials: Credentials, *, tenants: dict[str, str] | None, shared_route: str | None = None) -> str:
    """The tenant of a caller.

    `tenants` maps the hex SHA-256 of each API key to its tenant's name; None if no API keys are set.
    Raises BadCredential if API keys are set and none of them was presented.
    """
    name = None
    if tenants is not None:
        name = tenants.get(api_key_hash(credentials.gateway or credentials.other))
        if name is None:
            raise BadCredential("no valid API key was presented: send one as `Authorization: Bearer …`")
    if shared_route is not None:
        return f"shared:{shared_route}"
    if name is not None:
        beside = credentials.other if credentials.gateway else ""
        return f"tenant:{name}\n{beside}" if beside else f"tenant:{name}"
    return f"credential:{credentials.text}" if credentials.text else "local:"


def api_key_hash(api_key: str) -> str:
    return hashlib.sha256(api_key.encode()).hexdigest()


def _token(value: str) -> str:
    value = value.strip(" \t")
    scheme, _, token = value.partition(" ")
    return token.strip(" \t") if scheme.lower() == "bearer" else value
