"""A manifest as a library holds it: canonical JSON, named by its own digest.

It comes from a store that others may write to, so each member has bounds.  It has one form of bytes only: what is not
canonical is refused, so that what was read is all that was signed.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal

import msgspec

from foretold.contract.canonical import canonical
from foretold.errors import ConfigError, LibraryError
from foretold.models.manifest import File, Manifest

FORMAT = "foretold-model/1"
LONGEST = 2**20
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,99}"
_FILE_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_+-]|\.(?!\.)){0,199}"
_LARGEST = 2**53 - 1
_NAMED = re.compile(NAME)

_Name = Annotated[str, msgspec.Meta(pattern=f"^{NAME}\\Z")]
_Word = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_-]{0,39}\\Z")]
_Language = Annotated[str, msgspec.Meta(pattern="^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}\\Z")]
_Bytes = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST)]
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=f"^{_FILE_NAME}\\Z")]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]
    size_bytes: _Bytes


class _Kv(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    k: _KvType
    v: _KvType


class _Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fixed_bytes: _Bytes
    token_bytes: _Bytes


class _Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    context: Annotated[int, msgspec.Meta(ge=256, le=10_000_000)]
    max_tokens: _Tokens
    parallel: Annotated[int, msgspec.Meta(ge=1, le=64)]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    name: _Name
    engine: str
    files: Annotated[tuple[_File, ...], msgspec.Meta(min_length=1, max_length=1000)]
    chat_template: Annotated[str, msgspec.Meta(max_length=500_000)] | None
    licence: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    context: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    kv: _Kv
    memory: _Memory
    capabilities: Annotated[tuple[_Word, ...], msgspec.Meta(min_length=1, max_length=50)]
    languages: Annotated[tuple[_Language, ...], msgspec.Meta(max_length=200)]
    defaults: _Defaults


def written(manifest: Manifest) -> bytes:
    """The manifest as it is stored.  Raises LibraryError for what could not be read again."""
    text = canonical(
        {
            "format": FORMAT,
            "name": manifest.name,
            "engine": manifest.engine,
            "files": [{"name": f.name, "sha256": f.sha256, "size_bytes": f.size_bytes} for f in manifest.files],
            "chat_template": manifest.chat_template,
            "licence": manifest.licence,
            "context": manifest.trained_context,
            "kv": {"k": manifest.cache_type_k, "v": manifest.cache_type_v},
            "memory": {"fixed_bytes": manifest.fixed_bytes, "token_bytes": manifest.token_bytes},
            "capabilities": sorted(manifest.capabilities),
            "languages": list(manifest.languages),
            "defaults": {
                "context": manifest.context,
                "max_tokens": manifest.max_tokens,
                "parallel": manifest.parallel,
            },
        }
    )
    manifest_of(text)
    return text


def revision_of(text: bytes) -> str:
    """The digest that a manifest is named and pinned by."""
    return hashlib.sha256(text).hexdigest()


def manifest_of(text: bytes) -> Manifest:
    """The manifest that was written.  Raises LibraryError; whether it is to be trusted is another question."""
    if len(text) > LONGEST:
        raise LibraryError(f"the manifest has {len(text):,} bytes: {LONGEST:,} are the most")
    try:
        told = msgspec.json.decode(text, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise LibraryError(f"the manifest is not one of format {FORMAT!r}: {str(e)[:300]}") from None
    if told.format != FORMAT:
        raise LibraryError(f"the manifest has format {told.format[:40]!r}, known is {FORMAT!r}: use a newer Foretold")
    if told.engine != "gguf":
        raise LibraryError(
            f"the manifest names the engine {told.engine[:40]!r}: from a library come only models for 'gguf', since other"
            " engines run code, and that must stand in this machine's own settings"
        )
    _check(told)
    if canonical(msgspec.to_builtins(told)) != text:
        raise LibraryError("the manifest is not canonical JSON: write it with `foretold models push`")
    return Manifest(
        name=told.name,
        files=tuple(File(f.name, f.sha256, f.size_bytes) for f in told.files),
        licence=told.licence,
        capabilities=frozenset(told.capabilities),
        languages=told.languages,
        fixed_bytes=told.memory.fixed_bytes,
        token_bytes=told.memory.token_bytes,
        context=told.defaults.context,
        parallel=told.defaults.parallel,
        max_tokens=told.defaults.max_tokens,
        engine=told.engine,
        cache_type_k=told.kv.k,
        cache_type_v=told.kv.v,
        chat_template=told.chat_template,
        trained_context=told.context,
    )


def check_name(name: str) -> str:
    """A name that a model may have in a library.  Raises ConfigError."""
    if not _NAMED.fullmatch(name):
        raise ConfigError(
            f"{name[:120]!r} can't name a model: give letters, digits, `.`, `_` and `-`, at most 100, the first a letter or"
            " a digit"
        )
    return name


def _check(told: _Document) -> None:
    names = [file.name.lower() for file in told.files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LibraryError(f"the manifest names the file {twice!r} twice")
    wrong = next((name for name in names if not name.endswith(".gguf")), None)
    if wrong is not None:
        raise LibraryError(f"the manifest names the file {wrong!r}: the engine reads .gguf files only")
    numbered = [f"-{at:05d}-of-{len(names):05d}.gguf" for at in range(1, len(names) + 1)]
    if len(names) > 1 and any(not name.endswith(end) for name, end in zip(names, numbered, strict=True)):
        raise LibraryError(
            f"the manifest names {len(names)} files that are not the parts of one model, in order: they are called"
            f" NAME{numbered[0]}, NAME{numbered[1]} and so on"
        )
    if told.context and told.defaults.context > told.context:
        raise LibraryError(
            f"the manifest's default context is {told.defaults.context} tokens, and the model was made for {told.context}"
        )
    if any(ord(c) < 32 or ord(c) == 127 for c in told.licence):
        raise LibraryError("the manifest's licence has control characters")
