"""The multipart upload of a script, and its metadata by the official SDK's types, stricter: no unknown member passes."""

from __future__ import annotations

import json
import typing
from typing import Any

from aiohttp import web
from cloudflare.types.workers import script_update_params as params
from pydantic import TypeAdapter, ValidationError

from tests.fakes.cloudflare_api.asking import parts
from tests.fakes.cloudflare_api.things import Refusal

MODULE_TYPES = {
    "application/javascript+module",
    "text/javascript+module",
    "application/wasm",
    "text/plain",
    "application/octet-stream",
    "application/source-map",
}
# The SDK's type says that any number will do; the API takes these.
PERIODS = (10, 60)


def _kinds() -> dict[str, Any]:
    found = {}
    for kind in typing.get_args(params.MetadataBinding):
        hints = typing.get_type_hints(kind, include_extras=True)
        for text in typing.get_args(_bare(hints["type"])):
            found[text] = kind
    return found


def _bare(hint: Any) -> Any:
    """Without Required and Annotated."""
    while typing.get_origin(hint) is not None and typing.get_origin(hint) is not typing.Literal:
        hint = typing.get_args(hint)[0]
    return hint


BINDING_KINDS = _kinds()
CACHE_MEMBERS: dict[str, TypeAdapter[Any]] = {
    "cache_options": TypeAdapter(params.MetadataCacheOptions),
    "exports": TypeAdapter(dict[str, params.MetadataExports]),
}
METADATA_MEMBERS = {
    name.replace("workers_", "workers/") for name in typing.get_type_hints(params.Metadata, include_extras=False)
}


async def uploaded(request: web.Request) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    """Metadata and modules.  Raises Refusal."""
    metadata: dict[str, Any] | None = None
    modules: dict[str, tuple[str, bytes]] = {}
    for part in await parts(request):
        if part.name == "metadata":
            metadata = _json(part.content)
        elif part.filename is None:
            raise Refusal(400, 10021, f"the part {part.name!r} has no file name")
        elif part.filename in modules:
            raise Refusal(400, 10021, f"two parts are named {part.filename!r}")
        elif part.content_type not in MODULE_TYPES:
            raise Refusal(400, 10021, f"the module {part.filename!r} has the content type {part.content_type!r}")
        else:
            modules[part.filename] = (part.content_type, part.content)
    if metadata is None:
        raise Refusal(400, 10021, "there is no part named metadata")
    check(metadata, modules)
    return metadata, modules


def check(metadata: dict[str, Any], modules: dict[str, tuple[str, bytes]]) -> None:
    """Raises Refusal."""
    for name in metadata:
        if name not in METADATA_MEMBERS:
            raise Refusal(400, 10021, f"metadata has an unknown member {name!r}")
    main = metadata.get("main_module")
    if main not in modules:
        raise Refusal(400, 10021, f"No such module {main!r}")
    if len(str((metadata.get("annotations") or {}).get("workers/tag", "")).encode()) > 100:
        raise Refusal(400, 10021, "the tag of a version is at most 100 bytes")
    if not isinstance(metadata.get("compatibility_date"), str):
        raise Refusal(400, 10021, "compatibility_date is missing")
    for member in metadata.keys() & CACHE_MEMBERS.keys():
        try:
            CACHE_MEMBERS[member].validate_json(json.dumps(metadata[member]), strict=True)
        except ValidationError as e:
            raise Refusal(400, 10021, f"{member}: {e.errors()[0]['loc']}: {e.errors()[0]['msg']}") from None
    names = [binding.get("name") for binding in metadata.get("bindings", ())]
    for binding in metadata.get("bindings", ()):
        check_binding(binding)
        if names.count(binding["name"]) > 1:
            raise Refusal(400, 10021, f"Binding name {binding['name']!r} already in use")


def check_binding(binding: dict[str, Any]) -> None:
    """Raises Refusal for what is no binding by the SDK's types."""
    kind = BINDING_KINDS.get(binding.get("type", ""))
    if kind is None:
        raise Refusal(400, 10021, f"there is no binding of type {binding.get('type')!r}")
    try:
        TypeAdapter(kind).validate_json(json.dumps(binding), strict=True)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        raise Refusal(400, 10021, f"binding {binding.get('name')!r}: {where}: {first['msg']}") from None
    for member in binding:
        if member not in kind.__annotations__:
            raise Refusal(400, 10021, f"binding {binding['name']!r} has an unknown member {member!r}")
    if binding["type"] == "ratelimit" and binding["simple"]["period"] not in PERIODS:
        raise Refusal(400, 10021, "a rate limit's period is 10 or 60")


def _json(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except ValueError:
        raise Refusal(400, 10021, "metadata is not JSON") from None
    if not isinstance(told, dict):
        raise Refusal(400, 10021, "metadata is no object")
    return told
