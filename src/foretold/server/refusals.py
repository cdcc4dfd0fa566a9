"""Answers from below the application: to what is no request, comes too slowly, or comes when there is no room."""

from __future__ import annotations

import logging
from http import HTTPStatus

import httptools

from foretold.dialects.openai import OpenAI
from foretold.errors import ForetoldError, Overloaded, Refused, TooLarge

NOT_HTTP = Refused("this is no HTTP/1.1 request, or its body is not framed as it says", code="not_http")
BAD_TARGET = Refused("the target is no path: send `GET /path HTTP/1.1`", code="bad_target")
HEAD_TOO_LARGE = TooLarge("the head is too long: at most 32 KiB of 100 fields", code="head_too_large", status=431)
TOO_SLOW = Refused("the request took too long to come", code="too_slow", status=408)
TOO_SPARSE = Refused("the body comes in too many bytes for what it says", code="bad_framing")

_log = logging.getLogger("foretold")
# Nothing below the application knows a dialect: most callers speak OpenAI's.
_DIALECT = OpenAI("", "")


def full() -> Overloaded:
    return Overloaded("as many connections as server.connections allows are busy: try again in a moment")


def written(error: ForetoldError) -> bytes:
    """The whole answer that tells an error and ends the connection."""
    status = HTTPStatus(error.status_here if isinstance(error, Refused) else error.status)
    kind, body = _DIALECT.tell(error)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "connection: close",
        *(["retry-after: 1"] if isinstance(error, Overloaded) else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def fault_of(error: httptools.HttpParserError) -> ForetoldError:
    """What a parser's error tells the caller: what a callback of ours raised, or that this is not HTTP."""
    match error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None:
        case None:
            return NOT_HTTP
        case Refused() as refused:
            return refused
        case httptools.HttpParserInvalidURLError():
            return BAD_TARGET
        case other:
            _log.error("reading a request failed", exc_info=other)
            return ForetoldError("the request could not be read because of a fault in Foretold")
