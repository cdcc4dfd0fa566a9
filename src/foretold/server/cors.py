"""What a web page that was let in needs with every answer (Fetch standard, section 3.2)."""

from __future__ import annotations

from foretold.ports import Request

_EXPOSED = "cache-status, cf-aig-cache-status, age, etag"

Headers = list[tuple[str, str]]


def cors(request: Request) -> Headers:
    """For a page whose origin the guard has let in; nothing for other callers."""
    origin = next((value for name, value in request.headers if name == "origin"), None)
    if origin is None:
        return []
    return [("access-control-allow-origin", origin), ("access-control-expose-headers", _EXPOSED), ("vary", "origin")]


def preflight(request: Request) -> Headers:
    wanted = next((v for n, v in request.headers if n == "access-control-request-headers"), None)
    return [
        *cors(request),
        ("access-control-allow-methods", "GET, HEAD, POST, QUERY"),
        ("access-control-allow-headers", wanted or "content-type, authorization"),
        ("access-control-max-age", "600"),
    ]
