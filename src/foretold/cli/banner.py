"""What a node says when it is ready."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from foretold import __version__
from foretold.cli.words import bold
from foretold.config.checking import is_loopback
from foretold.config.settings import Config
from foretold.datafolder import DataFolder
from foretold.models.manifest import Manifest


def banner(
    config: Config,
    manifests: Sequence[Manifest],
    address: str,
    folder: DataFolder,
    *,
    set_aside: Path | None,
    took_s: float,
) -> str:
    where = (
        str(config.file)
        if config.file is not None
        else "no settings file, defaults (`foretold config example` shows all)"
    )
    lines = [f"{bold('Foretold')} {__version__} · {where}", ""]
    lines += [f"  model   {manifest.name}   {_what(manifest)}" for manifest in manifests]
    lines += [f"  {'upstream':<7} {u.name}   {u.url}" for u in config.upstreams]
    lines.append(f"  answers kept in {folder.path}, good for {config.cache.fresh / 3600:g} h")
    if config.mode == "observe":
        lines.append("  observe mode: every query goes to its origin; what would have been a hit is counted")
    if set_aside is not None:
        lines.append(f"  the kept answers were damaged and are set aside in {set_aside}; a new store was begun")
    if config.server.workers > 1:
        lines.append(f"  {config.server.workers} processes share port, disk and flights")
    if config.api_keys:
        lines.append(f"  API keys of {len({k.tenant for k in config.api_keys})} tenants may ask")
    elif is_loopback(config.server.host):
        lines.append("  no API keys: whoever is on this machine may ask, nobody else can reach it")
    else:
        lines.append("  open: whoever reaches this machine may ask")
    lines += ["", f"  API     {address}/v1   (set it as the base URL of any OpenAI client)", ""]
    if manifests:
        lines += _first_question(manifests[0].name, address)
    lines.append(f"Ready in {took_s:.1f} s. Ctrl-C stops it; kept answers stay.")
    return "\n".join(lines)


def _first_question(model: str, address: str) -> list[str]:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 64}
    )
    return [
        "Ask it something, twice:",
        "",
        f"  curl -i {address}/v1/chat/completions -H 'content-type: application/json' -d '{body}'",
        "",
        "  first   Cache-Status: Foretold; fwd=uri-miss; stored    the model computes, a second or two",
        "  again   Cache-Status: Foretold; hit; ttl=86399          from memory, under a millisecond; with `Age`",
        "",
    ]


def _what(manifest: Manifest) -> str:
    if manifest.engine != "gguf":
        return f"a {manifest.engine} engine of yours, revision {manifest.given_revision}"
    return f"{manifest.size_bytes / 1e6:.1f} MB, {manifest.licence}"
