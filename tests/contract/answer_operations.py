"""What the operations of vectors about records, time, controls and answers do here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import msgspec.structs

from foretold.contract import (
    aliases,
    controls,
    endings,
    events,
    float32,
    freshness,
    generations,
    manners,
    record,
    status,
    storable,
)
from foretold.errors import RecordCorrupt
from tests.contract.key_operations import body_of
from tests.contract.values import SECRET, bytes_of, is_same, pairs_of, seconds_of

Given = dict[str, Any]


def pack(given: Given) -> bytes:
    members = given["record"]
    lists = {"headers": tuple(pairs_of(members["headers"])), "has": tuple(members["has"])}
    return record.pack(record.Record(**{**members, **lists, "body": bytes_of(members["body"])}), SECRET)


def unpack(given: Given) -> Given:
    found = record.unpack(bytes_of(given["blob"]), SECRET, key=given["key"], namespace=given["namespace"])
    members = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not None}
    return {**members, "body": found.body.hex()}


def every_damage_is_corrupt(given: Given) -> bool:
    """All truncations, and each byte changed in its lowest and in its highest bit."""
    blob = bytes_of(given["blob"])
    record.open_sealed(blob, SECRET)
    cut = [blob[:length] for length in range(len(blob))]
    changed = [
        blob[:at] + bytes([byte ^ change]) + blob[at + 1 :] for at, byte in enumerate(blob) for change in (0x01, 0x80)
    ]
    return all(is_corrupt(damaged) for damaged in cut + changed)


def is_corrupt(blob: bytes) -> bool:
    try:
        record.open_sealed(blob, SECRET)
    except RecordCorrupt:
        return True
    return False


def judged(given: Given) -> tuple[freshness.Judged, freshness.Lifetimes]:
    lifetimes = freshness.Lifetimes(**given.get("lifetimes", {}))
    return freshness.judge(given["made_ms"], lifetimes, given["now_ms"]), lifetimes


def accepts(given: Given) -> bool:
    return freshness.accepts(
        judged(given)[0],
        max_age_s=given.get("max_age_s"),
        min_fresh_s=given.get("min_fresh_s", 0),
        max_stale_s=seconds_of(given.get("max_stale_s")),
    )


def upstream_lifetimes(given: Given) -> Given | None:
    found = freshness.upstream_lifetimes(
        given["headers"],
        freshness.Lifetimes(**given["lifetimes"]),
        shared_scope=given["shared_scope"],
        keyed=frozenset(given["keyed"]),
        now_ms=given["now_ms"],
    )
    return None if found is None else dataclasses.asdict(found)


def split_query(given: Given) -> Given:
    found, kept = controls.split_query(given["query"])
    return {"found": found, "kept": kept}


def wishes(found: controls.Controls) -> Given:
    """Only what differs from asking nothing."""
    nothing = dataclasses.asdict(controls.NONE)
    members = dataclasses.asdict(found).items()
    return {n: "any" if value == math.inf else value for n, value in members if not is_same(value, nothing[n])}


def read_controls(given: Given) -> Given:
    in_query, _ = controls.split_query(given.get("query", ""))
    return wishes(aliases.read_controls(pairs_of(given["headers"]), in_query, chance=given.get("chance", 0.0)))


def failure_of(given: Given) -> manners.Failure | None:
    return manners.Failure(given["failure"]) if given["failure"] else None


def split(given: Given) -> Given:
    found, rest = events.split(bytes_of(given["transcript"]))
    told = [{"raw": event.raw.decode(), "data": event.data, "name": event.name} for event in found]
    return {"events": told, "rest": rest.decode()}


def feed(given: Given) -> Given:
    splitter = events.Splitter(longest_bytes=given.get("longest_bytes", events.LONGEST_EVENT_BYTES))
    fed = [[raw.decode() for raw in splitter.feed(bytes_of(chunk))] for chunk in given["chunks"]]
    return {"fed": fed, "rest": splitter.rest().decode()}


def other_form(given: Given) -> str | None:
    """A vector told in the other form; None if it is none."""
    embedding = given["embedding"]
    if float32.dimensions(embedding) is None:
        return None
    if isinstance(embedding, list):
        return float32.as_base64(float32.of_numbers(embedding))
    return float32.as_numbers(float32.of_base64(embedding) or b"").decode()


OPERATIONS: dict[str, Callable[[Given], Any]] = {
    "pack": pack,
    "unpack": unpack,
    "every_damage_is_corrupt": every_damage_is_corrupt,
    "kept_headers": lambda g: record.kept_headers(pairs_of(g["headers"])),
    "is_caller_tag": lambda g: generations.is_caller_tag(g["tag"]),
    "implicit_tags": lambda g: generations.implicit_tags(**g),
    "caller_tag": lambda g: generations.caller_tag(g["tenant_namespace"], g["tag"]),
    "is_alive": lambda g: generations.is_alive(g["held"], g["current"]),
    "generation_name": lambda g: generations.generation_name(g["tag"]),
    "age_s": lambda g: freshness.age_s(g["made_ms"], g["now_ms"]),
    "judge": lambda g: judged(g)[0]._asdict(),
    "may_revalidate_behind": lambda g: freshness.may_revalidate_behind(*judged(g)),
    "may_replace_error": lambda g: freshness.may_replace_error(*judged(g)),
    "accepts": accepts,
    "kv_expiration_s": lambda g: freshness.kv_expiration_s(*judged(g)),
    "made_ms": lambda g: freshness.made_ms(g["last_byte_ms"], g["age"]),
    "upstream_lifetimes": upstream_lifetimes,
    "split_query": split_query,
    "cache_control": lambda g: wishes(controls.cache_control(g["value"])),
    "own_controls": lambda g: wishes(controls.own_controls(pairs_of(g["pairs"]))),
    "ttl_s": lambda g: controls.ttl_s(g["value"]),
    "is_label": lambda g: controls.is_label(g["value"]),
    "read_controls": read_controls,
    "body_controls": lambda g: wishes(aliases.body_controls(body_of(g)["cache"])),
    "has_limit": lambda g: storable.has_limit(g["body"]),
    "why_not": lambda g: storable.why_not(g["operation"], g["status"], g["answer"], limited=g["limited"]),
    "why_not_vectors": lambda g: storable.why_not_vectors(g["items"], len(g["items"]), g["inputs"]),
    "other_form": other_form,
    "is_negative": lambda g: storable.is_negative(g["status"], g["answer"]),
    "ending": lambda g: dataclasses.asdict(endings.ending(**g)),
    "cache_status": lambda g: str(status.CacheStatus(**g["status"])),
    "listed": lambda g: status.listed(g["before"], status.CacheStatus(**g["status"])),
    "etag": lambda g: status.etag(g["body_sha256"], g["shape"]),
    "etag_matches": lambda g: status.etag_matches(g["if_none_match"], g["etag"]),
    "client_cache_control": lambda g: status.client_cache_control(g["method"], hit=g["hit"]),
    "may_answer_304": lambda g: status.may_answer_304(g["method"]),
    "retry_after_s": lambda g: manners.retry_after_s(**{**g, "failure": failure_of(g)}),
    "may_fall_back": lambda g: manners.may_fall_back(**{**g, "failure": failure_of(g)}),
    "edge_may_store": lambda g: manners.edge_may_store(g["cache_status"]),
    "split": split,
    "ends_cleanly": lambda g: events.ends_cleanly(*events.split(bytes_of(g["transcript"]))),
    "splitter": feed,
}
