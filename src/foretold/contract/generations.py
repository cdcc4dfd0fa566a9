"""Purging without touching records: a tag's generation (rule G1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

EVERYTHING = "*"
MAX_CALLER_TAGS = 16
NEVER_PURGED = ""
GENERATION_NAMES = "foretold/1/generation/"

_CALLER_TAG = re.compile(r"[a-z0-9_.:-]{1,64}")


def is_caller_tag(tag: str) -> bool:
    return _CALLER_TAG.fullmatch(tag) is not None


def implicit_tags(namespaces: Iterable[str], *, model: str, revision: str, engine: str | None) -> list[str]:
    """The tags every record has: everything, its namespace and all ancestors, its model, revision and engine."""
    tags = [EVERYTHING, *(f"namespace:{n}" for n in namespaces), f"model:{model}", f"revision:{revision}"]
    return [*tags, f"engine:{engine}"] if engine else tags


def caller_tag(tenant_namespace: str, tag: str) -> str:
    """A caller's tag, which lives in the namespace of its tenant."""
    return f"tag:{tenant_namespace}:{tag}"


def is_alive(held: Mapping[str, str], current: Mapping[str, str]) -> bool:
    """Whether no tag of a record was purged since its flight began.

    `held` are the record's tags with the generations it read; `current` those of now, a tag never purged being absent.
    A table without `*` is lost, and kills all.
    """
    if EVERYTHING not in held or EVERYTHING not in current:
        return False
    return all(current.get(tag, NEVER_PURGED) == generation for tag, generation in held.items())


@lru_cache(maxsize=20_000)
def generation_name(tag: str) -> str:
    """Where KV keeps a tag's generation."""
    return f"{GENERATION_NAMES}{hashlib.sha256(tag.encode()).hexdigest()}"
