"""Caching controls by the names of other products (rule C3): whoever moves here keeps their headers.

What an alias says that can't be read is ignored and named in `ignored_aliases`, never refused: another product's
client must go on working.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from foretold.contract.controls import MAX_TOLD, NONE, Controls, cache_control, is_label, own_controls, ttl_s
from foretold.contract.freshness import CEILING_S
from foretold.contract.inputs import ignored_names

MAX_BUCKETS = 100

_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)?")
_TELLABLE = re.compile(r"[ -~]{1,32}")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1000}
_CAREFREE = ("x-portkey-cache", "x-bf-cache-type", "x-bf-cache-threshold")


def read_controls(
    headers: Iterable[tuple[str, str]], in_query: Iterable[tuple[str, str]] = (), *, chance: float = 0.0
) -> Controls:
    """All controls of a request's head: Cache-Control, then ours, then the aliases in the order of rule C3.

    `chance` in [0, 1) draws the sample of a bucket.  Raises BadControl for a `foretold-*` that can't be read.
    """
    given = [(name.lower(), value) for name, value in headers]
    settled = NONE
    for name, value in given:
        if name == "cache-control":
            settled = settled.stricter(cache_control(value))
    settled = settled.stricter(own_controls([*given, *in_query]))
    for alias in _ALIASES:
        for name, value in given:
            if name == alias:
                settled = settled.stricter(_ALIASES[alias](name, value.strip(" \t"), chance))
    return settled


def body_controls(value: Any) -> Controls:
    """The controls of LiteLLM's body member `cache`; only an object is one.

    Members may be many: those that can't be read are passed over once enough are told.
    """
    if not isinstance(value, dict):
        return NONE
    settled = NONE
    unread: list[str] = []
    for name, said in value.items():
        wish = _body_control(name, said)
        if wish is not None:
            settled = settled.stricter(wish)
        elif len(unread) < MAX_TOLD:
            unread.append(f"cache.{name}" if _TELLABLE.fullmatch(name) else "cache")
    return settled.stricter(Controls(ignored_aliases=tuple(unread))) if unread else settled


def _body_control(name: str, said: Any) -> Controls | None:
    """What a member asks; None if it can't be read."""
    if name == "no-cache" and isinstance(said, bool):
        return Controls(no_cache=said)
    if name == "no-store" and isinstance(said, bool):
        return Controls(no_store=said)
    if name == "namespace" and isinstance(said, str) and is_label(said):
        return Controls(children=(said,))
    if name in ("ttl", "s-maxage", "s-max-age") and _is_whole(said) and 0 <= said <= CEILING_S:
        seconds = int(said)
        return Controls(store_ttl_s=seconds) if name == "ttl" else Controls(max_age_s=seconds)
    return None


def _is_whole(said: Any) -> bool:
    return type(said) is int or (type(said) is float and said.is_integer())


def _no_store_if(word: str) -> Any:
    def read(name: str, value: str, chance: float) -> Controls:
        said = value.lower()
        if said not in ("true", "false"):
            return _unread(name)
        return Controls(no_store=said == word)

    return read


def _no_cache(name: str, value: str, chance: float) -> Controls:
    said = value.lower()
    return Controls(no_cache=said == "true") if said in ("true", "false") else _unread(name)


def _child(name: str, value: str, chance: float) -> Controls:
    return Controls(children=(value,)) if is_label(value) else _unread(name)


def _ttl(name: str, value: str, chance: float) -> Controls:
    seconds = ttl_s(value)
    return _unread(name) if seconds is None else Controls(store_ttl_s=seconds, max_age_s=seconds)


def _duration_ttl(name: str, value: str, chance: float) -> Controls:
    found = _DURATION.fullmatch(value)
    if found is None:
        return _unread(name)
    seconds = int(found[1]) * _UNIT_MS[found[2]] // 1000
    return Controls(store_ttl_s=seconds, max_age_s=seconds) if seconds <= CEILING_S else _unread(name)


def _buckets(name: str, value: str, chance: float) -> Controls:
    if not re.fullmatch(r"[0-9]{1,3}", value) or not 1 <= int(value) <= MAX_BUCKETS:
        return _unread(name)
    return Controls(sample=int(chance * int(value)))


def _ignored_members(name: str, value: str, chance: float) -> Controls:
    names = [part.strip(" \t") for part in value.split(",") if part.strip(" \t")]
    allowed = ignored_names(names)
    refused = () if len(allowed) == len(set(names)) else (name,)
    return Controls(ignored=tuple(allowed), ignored_aliases=refused)


def _nothing(name: str, value: str, chance: float) -> Controls:
    return NONE


def _unread(name: str) -> Controls:
    return Controls(ignored_aliases=(name,))


_ALIASES: Mapping[str, Any] = {
    "cf-aig-skip-cache": _no_store_if("true"),
    "cf-skip-cache": _no_store_if("true"),
    "cf-aig-cache-ttl": _ttl,
    "cf-cache-ttl": _ttl,
    "cf-aig-cache-key": _child,
    "x-portkey-cache-force-refresh": _no_cache,
    "x-portkey-cache-namespace": _child,
    "helicone-cache-enabled": _no_store_if("false"),
    "helicone-cache-seed": _child,
    "helicone-cache-bucket-max-size": _buckets,
    "helicone-cache-ignore-keys": _ignored_members,
    "x-bf-cache-key": _child,
    "x-bf-cache-ttl": _duration_ttl,
    "x-bf-cache-no-store": _no_store_if("true"),
    **dict.fromkeys(_CAREFREE, _nothing),
}
ALIASES = frozenset(_ALIASES)
