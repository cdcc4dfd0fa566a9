"""What is measured: which server is asked what, by how many connections, and what must be true of the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from answers import ANSWER_BYTES, TRANSCRIPT

CHAT = "/v1/chat/completions"
NUMBER = "@NUMBER@"
# load.lua sends the same.
CREDENTIAL = "Bearer sk-bench-0123456789abcdefghijklmnopqrstuvwxyz"
# More records than a memory tier of 1 MiB holds: asked in turn, each has left it when its turn comes again.  Only the
# last ones of one load may still be there when the next one begins.
KEYS_ON_DISK = 3000
MOST_IN_MEMORY = 750

_QUESTION = "What is the capital of France, since when, and how many people live there? Ref "


@dataclass(frozen=True)
class Case:
    """`beside` names the case whose CPU time its own is divided by.

    `body` may hold NUMBER: counted up for ever, or from 0 to `numbers`.  `tier` is the one that must have answered all,
    None where every request must have reached the upstream, empty for a server without any.
    """

    name: str
    server: str
    connections: int
    body: str
    beside: str
    path: str = CHAT
    answer_bytes: int = ANSWER_BYTES
    numbers: int = 0
    tier: Literal["memory", "disk", ""] | None = ""


def _asked(ref: str, **members: Any) -> str:
    system = "You are a helpful assistant. Answer shortly and exactly, in the language of the question."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": _QUESTION + ref}]
    body = {"model": "fast", "messages": messages, "temperature": 0, "max_tokens": 128, "seed": 7, "user": "bench"}
    return json.dumps(body | members, separators=(",", ":"))


_STREAM = {"stream": True, "stream_options": {"include_usage": True}}

SAME = _asked("0000000000000001")
OTHER_BYTES = _asked("0000000000000001", user=NUMBER)
# Another question: a record of the same would be the whole answer, told in events.
EVENTS = _asked("0000000000000002", **_STREAM)
NEW = _asked(NUMBER)
NEW_EVENTS = _asked(NUMBER, **_STREAM)

CASES = (
    Case("nginx", "nginx", 64, SAME, "nginx"),
    Case("varnish", "varnish", 64, SAME, "nginx"),
    Case("bare", "bare", 64, SAME, "nginx"),
    Case("hit", "node", 64, SAME, "nginx", tier="memory"),
    Case("hit, 2 processes", "node-two", 64, SAME, "hit"),
    Case("hit, other bytes", "node", 64, OTHER_BYTES, "hit", tier="memory"),
    Case("hit on disk", "node-small", 64, NEW, "hit", numbers=KEYS_ON_DISK, tier="disk"),
    Case("nginx, stream", "nginx", 64, EVENTS, "nginx", answer_bytes=len(TRANSCRIPT)),
    Case("hit, stream of 203 events", "node", 64, EVENTS, "hit", answer_bytes=len(TRANSCRIPT), tier="memory"),
    Case("bare, 1 connection", "bare", 1, SAME, "bare, 1 connection"),
    Case("hit, 1 connection", "node", 1, SAME, "bare, 1 connection", tier="memory"),
    Case("bare proxy", "proxy", 16, NEW, "bare proxy", tier=None),
    Case("nginx, miss", "nginx", 16, NEW, "bare proxy", tier=None),
    Case("miss", "node-misses", 16, NEW, "bare proxy", tier=None),
    Case("mock alone, 1 connection", "mock", 1, NEW, "mock alone, 1 connection", tier=None),
    Case("miss, 1 connection", "node-misses", 1, NEW, "mock alone, 1 connection", tier=None),
    Case("bare proxy, stream", "proxy", 16, NEW_EVENTS, "bare proxy, stream", answer_bytes=len(TRANSCRIPT), tier=None),
    Case("miss, stream", "node-misses", 16, NEW_EVENTS, "bare proxy, stream", answer_bytes=len(TRANSCRIPT), tier=None),
)
