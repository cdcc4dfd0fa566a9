"""Whether a deployed edge really caches: a question nobody has asked, twice; first a miss, then a hit."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from foretold.errors import DeployError, DeployUnreachable

EDGE = "Foretold-Edge"
TRIES = 6
PAUSE_S = 1.0
ANSWER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One answer: `how` is hit or miss."""

    how: str
    status: int
    took_ms: int
    cache_status: str


def probe(url: str, model: str, *, key: str, question: str, pause: Callable[[float], None] = time.sleep) -> list[Seen]:
    """The answers until the first hit, at most TRIES after the first; records are written behind the answers.

    Raises DeployUnreachable without an answer, DeployError for one that is no answer of the edge.
    """
    body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 8}
    request = urllib.request.Request(  # noqa: S310  the address is one that edge.toml or the caller names
        f"{url.rstrip('/')}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "user-agent": "foretold", **_credential(key)},
    )
    seen = [_ask(request)]
    while seen[-1].how != "hit" and len(seen) <= TRIES:
        if len(seen) > 1:
            pause(PAUSE_S)
        seen.append(_ask(request))
    return seen


def _credential(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _ask(request: urllib.request.Request) -> Seen:
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310
            status, fields, told = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        with e:
            status, fields, told = e.code, e.headers, e.read()
    except (OSError, urllib.error.URLError) as e:
        reason = getattr(e, "reason", None) or e
        raise DeployUnreachable(
            f"no answer from {request.full_url} ({reason}): a route needs a proxied DNS record for its host, and a new "
            "one takes some minutes to be known"
        ) from e
    took_ms = round((time.monotonic() - began_s) * 1000)
    cache_status = ", ".join(fields.get_all("cache-status") or ())
    member = re.search(rf"(?:^|,)\s*{EDGE}((?:;[^,]*)*)", cache_status)
    if member is None:
        raise DeployError(
            f"{request.full_url} answered {status} without a Cache-Status of {EDGE}: the request went to something else "
            "than the Worker; look at the route with `plan`"
        )
    if status != 200:
        raise DeployError(f"the edge answered {status} ({cache_status}): {told[:200].decode(errors='replace').strip()}")
    is_hit = any(part.strip() == "hit" for part in member[1].split(";"))
    return Seen(how="hit" if is_hit else "miss", status=status, took_ms=took_ms, cache_status=cache_status)
