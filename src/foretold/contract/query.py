"""What is asked of a model, as the key sees it (rules K1 to K3, K11)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

KEYED_HEADERS = frozenset(
    ["anthropic-version", "anthropic-beta", "openai-beta", "openai-organization", "openai-project"]
)
INERT_HEADERS = frozenset(
    ["traceparent", "tracestate", "user-agent", "x-request-id", "idempotency-key", "content-type", "accept"]
)


class Query(msgspec.Struct, frozen=True):
    """The ten members of a key but its version.

    `operation` is one word for a known operation, else `json <path>` or `get <path>`; `input` is the digest of the
    input in its `form`; `headers` are the keyed ones, names in lower case, sorted.
    """

    namespace: str
    operation: str
    model: str
    revision: str
    input: str
    form: str = "json"
    sample: int = 0
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def keyed_headers(
    operation: str, headers: Iterable[tuple[str, str]], *, also: Iterable[str] = ()
) -> tuple[tuple[str, str], ...]:
    """The headers that count, sorted by name (K3).

    Names come in any case; lines of one name are joined by ", " in their order (RFC 9110 section 5.3).  Around a value
    only spaces and tabs don't count: that is all the white space HTTP knows there.
    """
    counted = KEYED_HEADERS.union(name.lower() for name in also)
    if operation.startswith(("json ", "get ")):
        counted |= {"accept-language"}
    joined: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        if name in counted:
            value = value.strip(" \t")
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return tuple(sorted(joined.items()))
