"""What a request itself asks about caching (rules C1 and C2); other products' names are in aliases.py (C3).

Controls come from headers, from `foretold-*` members of the query string and, in OpenAI-shaped bodies, from `cache`.
A caller may only narrow: of two wishes the stricter wins, and where neither is stricter the first family that speaks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from foretold.contract.freshness import CEILING_S
from foretold.contract.generations import MAX_CALLER_TAGS, is_caller_tag
from foretold.errors import BadControl

OWN = (
    "foretold-ttl",
    "foretold-tags",
    "foretold-sample",
    "foretold-namespace",
    "foretold-pace",
    "foretold-keep-alive",
    "foretold-revision",
)
MAX_SAMPLE = 99
MAX_LABEL = 256
MAX_NESTED = 8
# So many unreadable aliases are remembered.
MAX_TOLD = 8

_DIGITS = re.compile(r"[0-9]{1,15}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Controls:
    """Rules C1 to C3, settled.

    `store_ttl_s` lowers what is stored, `max_age_s` what is accepted; `max_stale_s` is infinite for any staleness.
    `children` are labels of ever narrower namespaces, `ignored` body members that don't count there, `ignored_aliases`
    the aliases that could not be read.  `keep_alive_s` is how long a model stays loaded afterwards, -1 for as long as
    it can, `revision` which one the caller believes that the model has.
    """

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False
    max_age_s: int | None = None
    min_fresh_s: int = 0
    max_stale_s: float | None = None
    store_ttl_s: int | None = None
    tags: tuple[str, ...] = ()
    sample: int | None = None
    children: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    pace_recorded: bool = False
    keep_alive_s: int | None = None
    revision: str | None = None
    ignored_aliases: tuple[str, ...] = ()

    def stricter(self, other: Controls) -> Controls:
        """Both wishes at once; `self` is the family that spoke first."""
        if other is NONE or self is NONE:
            return self if other is NONE else other
        return Controls(
            no_cache=self.no_cache or other.no_cache,
            no_store=self.no_store or other.no_store,
            only_if_cached=self.only_if_cached or other.only_if_cached,
            max_age_s=_lower(self.max_age_s, other.max_age_s),
            min_fresh_s=max(self.min_fresh_s, other.min_fresh_s),
            max_stale_s=self.max_stale_s if other.max_stale_s is None else _lower(self.max_stale_s, other.max_stale_s),
            store_ttl_s=_lower(self.store_ttl_s, other.store_ttl_s),
            tags=(*self.tags, *(t for t in other.tags if t not in self.tags)),
            sample=other.sample if self.sample is None else self.sample,
            children=(*self.children, *other.children),
            ignored=(*self.ignored, *other.ignored),
            pace_recorded=self.pace_recorded or other.pace_recorded,
            keep_alive_s=other.keep_alive_s if self.keep_alive_s is None else self.keep_alive_s,
            revision=other.revision if self.revision is None else self.revision,
            ignored_aliases=(*self.ignored_aliases, *other.ignored_aliases)[:MAX_TOLD],
        )


NONE = Controls()


def split_query(query: str) -> tuple[list[tuple[str, str]], str]:
    """The controls in a query string as (name, value), and the query string without them, otherwise as received."""
    if "foretold" not in query.lower() and "%" not in query:
        return [], query
    found, kept = [], []
    for part in query.split("&"):
        name, _, value = part.partition("=")
        name = unquote_plus(name).lower()
        if name.startswith("foretold-"):
            found.append((name, unquote_plus(value)))
        else:
            kept.append(part)
    return found, "&".join(kept)


def own_controls(pairs: Iterable[tuple[str, str]]) -> Controls:
    """The controls of our own family among headers or query members.

    Raises BadControl for an unknown `foretold-*` name, a value that can't be read or more of them than are allowed.
    """
    settled = NONE
    for name, value in pairs:
        name, value = name.lower(), value.strip(" \t")
        if not name.startswith("foretold-"):
            continue
        settled = settled.stricter(_own(name, value))
        if len(settled.tags) > MAX_CALLER_TAGS:
            raise BadControl(f"foretold-tags: at most {MAX_CALLER_TAGS} tags are taken", param="foretold-tags")
        if len(settled.children) > MAX_NESTED:
            raise BadControl(f"foretold-namespace: at most {MAX_NESTED} are nested", param="foretold-namespace")
    return settled


def cache_control(value: str) -> Controls:
    """The directives of a request's `Cache-Control`; an age that can't be read counts as `no-cache`."""
    settled = NONE
    for part in value.split(","):
        name, _, argument = part.partition("=")
        name, argument = name.strip(" \t").lower(), argument.strip(" \t").strip('"')
        settled = settled.stricter(_directive(name, argument))
    return settled


def ttl_s(value: str) -> int | None:
    """Seconds from 0 to the ceiling, or `forever` for the ceiling; None if it is neither."""
    if value == "forever":
        return CEILING_S
    if not _DIGITS.fullmatch(value) or int(value) > CEILING_S:
        return None
    return int(value)


def is_label(value: str) -> bool:
    """Whether a text can name a child namespace: 1 to 256 code points, none a control character.

    Labels that we make hold a line feed, which no caller's may.
    """
    return 0 < len(value) <= MAX_LABEL and not _CONTROL.search(value)


def _directive(name: str, argument: str) -> Controls:
    match name:
        case "no-cache":
            return Controls(no_cache=True)
        case "no-store":
            return Controls(no_store=True)
        case "only-if-cached":
            return Controls(only_if_cached=True)
        case "max-stale" if not argument:
            return Controls(max_stale_s=math.inf)
        case "max-age" | "min-fresh" | "max-stale" if not _DIGITS.fullmatch(argument):
            return Controls(no_cache=True)
        case "max-age":
            return Controls(max_age_s=int(argument))
        case "min-fresh":
            return Controls(min_fresh_s=int(argument))
        case "max-stale":
            return Controls(max_stale_s=int(argument))
    return NONE


def _own(name: str, value: str) -> Controls:
    match name:
        case "foretold-ttl":
            seconds = ttl_s(value)
            if seconds is None:
                raise BadControl(
                    f"foretold-ttl is {value!r}: give seconds from 0 to {CEILING_S}, or forever", param=name
                )
            return Controls(store_ttl_s=seconds, max_age_s=seconds)
        case "foretold-tags":
            return Controls(tags=_tags(value))
        case "foretold-sample":
            if not _DIGITS.fullmatch(value) or int(value) > MAX_SAMPLE:
                raise BadControl(f"foretold-sample is {value!r}: give a number from 0 to {MAX_SAMPLE}", param=name)
            return Controls(sample=int(value))
        case "foretold-namespace":
            if not is_label(value):
                raise BadControl(
                    f"foretold-namespace is no label: give 1 to {MAX_LABEL} characters, none a control", param=name
                )
            return Controls(children=(value,))
        case "foretold-pace":
            if value != "recorded":
                raise BadControl(f"foretold-pace is {value!r}: the only pace is `recorded`", param=name)
            return Controls(pace_recorded=True)
        case "foretold-keep-alive":
            if value != "-1" and (not _DIGITS.fullmatch(value) or int(value) > CEILING_S):
                raise BadControl(
                    f"foretold-keep-alive is {value!r}: give seconds from 0 to {CEILING_S}, or -1 for as long as there is room",
                    param=name,
                )
            return Controls(keep_alive_s=int(value))
        case "foretold-revision":
            if not is_label(value):
                raise BadControl(
                    f"foretold-revision is no revision: give 1 to {MAX_LABEL} characters, none a control", param=name
                )
            return Controls(revision=value)
    raise BadControl(f"there is no {name}: known are {', '.join(OWN)}", param=name)


def _tags(value: str) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag for tag in re.split(r"[ ,\t]+", value) if tag))
    wrong = next((tag for tag in tags if not is_caller_tag(tag)), None)
    if wrong is not None:
        raise BadControl(f"foretold-tags has {wrong!r}: a tag is 1 to 64 of a-z 0-9 _ . : -", param="foretold-tags")
    return tags


def _lower(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)
