"""What handlers need of a request, refused like the real API refuses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email import policy
from email.parser import BytesHeaderParser
from typing import Any

from aiohttp import web

from tests.fakes.cloudflare_api.things import Refusal, Things

THINGS: web.AppKey[Callable[[], Things]] = web.AppKey("things")


def things(request: web.Request) -> Things:
    return request.app[THINGS]()


def query(request: web.Request, *known: str) -> dict[str, str]:
    """The parameters, of which none may be unknown."""
    for name in request.query:
        if name not in known:
            raise Refusal(400, 10001, f"unknown query parameter {name!r}")
    return dict(request.query)


async def body(request: web.Request, **members: type) -> dict[str, Any]:
    """The JSON object; names that begin with _ may be missing (without the _)."""
    if request.content_type != "application/json":
        raise Refusal(415, 10001, f"content type {request.content_type!r} is not application/json")
    try:
        told = json.loads(await request.read())
    except ValueError:
        raise Refusal(400, 10001, "could not parse the JSON body") from None
    if not isinstance(told, dict):
        raise Refusal(400, 10001, "the body is not an object")
    known = {name.removeprefix("_"): kind for name, kind in members.items()}
    for name, value in told.items():
        if name not in known:
            raise Refusal(400, 10001, f"unknown member {name!r}")
        if not isinstance(value, known[name]):
            raise Refusal(400, 10001, f"{name!r} is not of type {known[name].__name__}")
    for name in members:
        if not name.startswith("_") and name not in told:
            raise Refusal(400, 10001, f"{name!r} is missing")
    return told


@dataclass(frozen=True, slots=True)
class Part:
    """`content_type_told` is with its parameters."""

    name: str
    filename: str | None
    content_type: str
    content_type_told: str
    content: bytes


async def parts(request: web.Request) -> list[Part]:
    """Of a multipart form."""
    boundary = re.search(r'boundary="?([^";]+)', request.headers["content-type"])
    if request.content_type != "multipart/form-data" or boundary is None:
        raise Refusal(415, 10001, f"content type {request.content_type!r} is not multipart/form-data")
    pieces = (b"\r\n" + await request.read()).split(b"\r\n--" + boundary[1].encode())
    if len(pieces) < 3 or pieces[0] != b"" or not pieces[-1].startswith(b"--"):
        raise Refusal(400, 10001, "the form's boundaries don't add up")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> Part:
    head, separator, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    if not separator:
        raise Refusal(400, 10001, "a part of the form has no head")
    fields = BytesHeaderParser(policy=policy.HTTP).parsebytes(head)
    name = fields.get_param("name", header="content-disposition")
    if fields.get_content_disposition() != "form-data" or not isinstance(name, str):
        raise Refusal(400, 10001, "a part of the form has no name")
    content_type = fields.get_content_type() if "content-type" in fields else ""
    told = re.search(rb"(?im)^content-type: *([^\r\n]*)", head)
    return Part(name, fields.get_filename(), content_type, told[1].decode() if told else "", content)


async def no_body(request: web.Request) -> None:
    if (await request.read()) not in (b"", b"{}"):
        raise Refusal(400, 10001, "this call takes no body")


def answer(result: Any, *, info: dict[str, Any] | None = None, status: int = 200) -> web.Response:
    told: dict[str, Any] = {"success": True, "errors": [], "messages": [], "result": result}
    if info is not None:
        told["result_info"] = info
    return web.json_response(told, status=status)


def page_of(items: Iterable[Any], request: web.Request, *, most: int) -> web.Response:
    """By page numbers; an empty page after the last."""
    everything = list(items)
    try:
        number = int(float(request.query.get("page", "1")))
        size = int(float(request.query.get("per_page", "20")))
    except ValueError:
        raise Refusal(400, 10001, "page and per_page are numbers") from None
    if number < 1 or not 1 <= size <= most:
        raise Refusal(400, 10001, f"per_page is at most {most}")
    part = everything[(number - 1) * size : number * size]
    info = {"page": number, "per_page": size, "count": len(part), "total_count": len(everything)}
    return answer(part, info=info)
