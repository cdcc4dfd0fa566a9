"""Static files: a session names them by digest, batches of those that are missing follow, the last gives a token that
the script's upload redeems.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from cloudflare.types.workers import script_update_params as params
from pydantic import TypeAdapter, ValidationError

from tests.fakes.cloudflare_api.asking import answer, body, parts, query, things
from tests.fakes.cloudflare_api.things import Refusal, Things, identity

LARGEST_BYTES = 25 * 2**20
# Small, so that a few files already take several calls.
IN_A_BATCH = 2
UPLOAD = r"/accounts/\w+/workers/assets/upload"


@dataclass
class Session:
    """`manifest` is path → (digest, size); `redeemable` is set when all of it is there."""

    script: str
    manifest: dict[str, tuple[str, int]]
    missing: set[str] = field(default_factory=set)
    redeemable: str = ""


def routes(root: str) -> list[web.RouteDef]:
    base = f"{root}/accounts/{{account}}/workers"
    return [
        web.post(f"{base}/scripts/{{script}}/assets-upload-session", begin),
        web.post(f"{base}/assets/upload", upload),
    ]


async def begin(request: web.Request) -> web.Response:
    told = await body(request, manifest=dict)
    held, script = things(request), request.match_info["script"]
    manifest = {path: _entry(path, given) for path, given in told["manifest"].items()}
    if not manifest:
        raise Refusal(400, 10021, "the manifest names no file")
    missing = sorted({digest for digest, _ in manifest.values()} - held.kept_assets.keys())
    session = Session(script, manifest, set(missing))
    token = f"session.{identity(script, json.dumps(told, sort_keys=True), str(len(held.sessions)))}"
    held.sessions[token] = session
    if not missing:
        session.redeemable = token.replace("session.", "complete.")
        return answer({"jwt": session.redeemable, "buckets": []})
    batches = [missing[at : at + IN_A_BATCH] for at in range(0, len(missing), IN_A_BATCH)]
    return answer({"jwt": token, "buckets": batches}, status=201)


def _entry(path: str, given: Any) -> tuple[str, int]:
    if not re.fullmatch(r"(/[^/\n]+)+", path):
        raise Refusal(400, 10021, f"the path {path!r} in the manifest is none")
    if not isinstance(given, dict) or set(given) != {"hash", "size"}:
        raise Refusal(400, 10021, f"{path!r} in the manifest needs hash and size, and nothing else")
    digest, size = given["hash"], given["size"]
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{32}", digest):
        raise Refusal(400, 10021, f"the hash of {path!r} is not 32 hex digits")
    if type(size) is not int or not 0 <= size <= LARGEST_BYTES:
        raise Refusal(413, 10021, f"{path!r} is larger than 25 MiB")
    return digest, size


def session_of(held: Things, authorization: str) -> Session:
    """The session whose token this is: an API token opens no batch."""
    found: Session | None = held.sessions.get(authorization.removeprefix("Bearer "))
    if found is None:
        raise Refusal(401, 10001, "this call takes the token of an upload session")
    return found


async def upload(request: web.Request) -> web.Response:
    if query(request, "base64").get("base64") != "true":
        raise Refusal(400, 10021, "base64 must be true")
    held = things(request)
    session = session_of(held, request.headers.get("authorization", ""))
    sizes = dict(session.manifest.values())
    for part in await parts(request):
        if part.filename != part.name or part.name not in sizes:
            raise Refusal(400, 10021, f"the part {part.name!r} is not of this session")
        if not part.content_type:
            raise Refusal(400, 10021, f"the part {part.name!r} has no content type")
        content = base64.b64decode(part.content, validate=True)
        if len(content) != sizes[part.name]:
            raise Refusal(400, 10021, f"the part {part.name!r} has {len(content)} bytes, not {sizes[part.name]}")
        held.kept_assets[part.name] = (part.content_type_told, content)
        session.missing.discard(part.name)
    if session.missing:
        return answer({}, status=202)
    session.redeemable = f"complete.{identity(session.script, str(sorted(sizes)))}"
    return answer({"jwt": session.redeemable}, status=201)


def redeemed(held: Things, script: str, given: dict[str, Any]) -> dict[str, tuple[str, bytes]]:
    """The files that an upload's `assets` stands for.  Raises Refusal."""
    _check_config(given.get("config", {}))
    if set(given) - {"jwt", "config"}:
        raise Refusal(400, 10021, f"assets has unknown members: {sorted(given)}")
    for session in held.sessions.values():
        if session.redeemable and session.redeemable == given.get("jwt") and session.script == script:
            return {path: held.kept_assets[digest] for path, (digest, _) in session.manifest.items()}
    raise Refusal(400, 10021, "the token of the static files is not one of a completed upload for this Worker")


def _check_config(config: dict[str, Any]) -> None:
    kind = params.MetadataAssetsConfig
    for member in config:
        if member not in kind.__annotations__:
            raise Refusal(400, 10021, f"assets.config has an unknown member {member!r}")
    try:
        TypeAdapter(kind).validate_json(json.dumps(config), strict=True)
    except ValidationError as e:
        raise Refusal(400, 10021, f"assets.config: {e.errors()[0]['loc']}: {e.errors()[0]['msg']}") from None
    first = config.get("run_worker_first")
    if isinstance(first, list) and not all(rule.startswith(("/", "!/")) for rule in first):
        raise Refusal(400, 10021, "rules of run_worker_first begin with / or !/")
