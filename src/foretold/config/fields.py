"""Which header fields settings may name.  Those that carry who asks, how a message is framed, or what the cache is
told, are decided elsewhere: a route that let them through would give one caller's answers to another, or break
messages.
"""

from __future__ import annotations

import re

from foretold.contract.aliases import ALIASES
from foretold.contract.namespace import CREDENTIAL_HEADERS, GATEWAY_HEADER
from foretold.contract.query import KEYED_HEADERS

CREDENTIALS = frozenset({*CREDENTIAL_HEADERS, GATEWAY_HEADER, "proxy-authorization", "cookie", "cookie2", "set-cookie"})
# What other services take credentials in: in a key they do no harm, outside of it they let answers cross.
FOREIGN_CREDENTIALS = frozenset(
    {"x-goog-api-key", "x-auth-token", "x-access-token", "x-amz-security-token", "ocp-apim-subscription-key"}
)
FRAMING = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NEVER_IN_A_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def keyed_name(name: str) -> str:
    """The name in lower case.  Raises ValueError for one that a route may not put into the key."""
    name = _sent_name(name)
    if name in CREDENTIALS:
        raise ValueError(f"{name!r} says who asks: it is part of whose answers these are, see `pass_credential`")
    if name in ("cache-control", "pragma") or name.startswith("foretold-") or name in ALIASES:
        raise ValueError(f"{name!r} is told to the cache and goes no further")
    return name


def inert_name(name: str) -> str:
    """The name in lower case.  Raises ValueError for one that a route may not send on outside of the key."""
    name = keyed_name(name)
    if name in FOREIGN_CREDENTIALS:
        raise ValueError(f"{name!r} says who asks: outside of the key it would give one caller's answers to another")
    if name in KEYED_HEADERS:
        raise ValueError(f"{name!r} counts on every route")
    return name


def fixed_field(name: str, value: str) -> str:
    """The name, in lower case, of a field that every request to an upstream gets.  Raises ValueError."""
    name = _sent_name(name)
    check_value(value, f"the value of {name!r}")
    return name


def check_value(value: str, what: str) -> None:
    """Raises ValueError for what would begin another line; never shows the value, which may be a secret."""
    if _NEVER_IN_A_VALUE.search(value):
        raise ValueError(f"{what} has a line end or another control character: give one line")


def _sent_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a header: give letters, digits and - only")
    name = name.lower()
    if name in FRAMING:
        raise ValueError(f"{name!r} belongs to each connection and message, not to the question")
    if name == "range" or name.startswith("if-"):
        raise ValueError(f"{name!r} asks for a part of an answer, or for none: answers are kept whole")
    return name
