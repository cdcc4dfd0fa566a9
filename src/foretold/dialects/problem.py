"""Errors as RFC 9457 problem details, for dialects without an error shape of their own."""

from __future__ import annotations

import orjson

from foretold.errors import ForetoldError, Refused


def problem(error: ForetoldError) -> tuple[str, bytes]:
    status = error.status_here if isinstance(error, Refused) else error.status
    code = error.code_here if isinstance(error, Refused) else error.code
    members = {"title": code.replace("_", " "), "status": status, "detail": str(error), "code": code}
    if isinstance(error, Refused) and error.param is not None:
        members["param"] = error.param
    return "application/problem+json", orjson.dumps(members)
