"""Questions to a deployed edge over HTTP: whether it really caches, what its own self-test finds, what files it serves."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import quote

from foretold.errors import ConfigError, DeployError, DeployUnreachable

EDGE = "Foretold-Edge"
TRIES = 6
PAUSE_S = 1.0
ANSWER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One answer: `how` is hit or miss."""

    how: str
    status: int
    took_ms: int
    cache_status: str


def chat(model: str, question: str) -> Asked:
    body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 8}
    return Asked(path="/v1/chat/completions", body=body)


def predict(model: str, question: str) -> Asked:
    return Asked(path=f"/predict/{quote(model, safe='/@:.-')}", body={"prompt": question, "max_tokens": 8})


def probe(base: str, asked: Asked, *, key: str, pause: Callable[[float], None] = time.sleep) -> list[Seen]:
    """The answers until the first hit, at most TRIES after the first; records are written behind the answers.

    Raises DeployUnreachable without an answer of the edge, DeployError for one that is none to the question.
    """

    def ask() -> Seen:
        # A request object is good for once: behind a proxy its second use would go astray.
        return _ask(_request(base + asked.path, body=asked.body, key=key))

    seen = [ask()]
    while seen[-1].how != "hit" and len(seen) <= TRIES:
        if len(seen) > 1:
            pause(PAUSE_S)
        seen.append(ask())
    return seen


def self_test(base: str, admin_token: str) -> tuple[tuple[str, str], ...]:
    """Each part of the Worker's own self-test, and what it found.  Raises DeployUnreachable, DeployError."""
    status, _, told, _ = _sent(_request(f"{base}/-/selftest", body={}, key=admin_token))
    try:
        parts = json.loads(told)["parts"]
        return tuple((str(name), str(said)) for name, said in parts.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        where = f"{base}/-/selftest answered {status}"
        if status in (401, 403):
            raise DeployError(f"{where}: the edge has another FORETOLD_ADMIN_TOKEN than this deployment") from None
        raise DeployUnreachable(f"{where} without a self-test: the request went to something else") from None


def fetched(url: str) -> bytes:
    """A static file as it is served.  Raises DeployUnreachable."""
    status, _, told, _ = _sent(urllib.request.Request(url, headers={"user-agent": "foretold"}))  # noqa: S310
    if status != 200:
        raise DeployUnreachable(f"{url} answered {status}: the static file is not served")
    return told


def _request(url: str, *, body: dict[str, Any], key: str) -> urllib.request.Request:
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"{url!r} is no address to ask: give one that begins with https://")
    credential = {"authorization": f"Bearer {key}"} if key else {}
    fields = {"content-type": "application/json", "user-agent": "foretold", **credential}
    return urllib.request.Request(url, json.dumps(body).encode(), fields)  # noqa: S310  checked above


def _ask(request: urllib.request.Request) -> Seen:
    status, fields, told, took_ms = _sent(request)
    cache_status = ", ".join(fields.get_all("cache-status") or ())
    member = re.search(rf"(?:^|,)\s*{EDGE}((?:;[^,]*)*)", cache_status)
    if member is None:
        raise DeployUnreachable(
            f"{request.full_url} answered {status} without a Cache-Status of {EDGE}: the request went to something else "
            "than the Worker; look at the route with `plan`"
        )
    if status != 200:
        advice = ": FORETOLD_KEY must be an API key that it knows" if status == 401 else ""
        said = told[:200].decode(errors="replace").strip()
        raise DeployError(f"the edge answered {status}{advice} ({cache_status}): {said}")
    is_hit = any(part.strip() == "hit" for part in member[1].split(";"))
    return Seen(how="hit" if is_hit else "miss", status=status, took_ms=took_ms, cache_status=cache_status)


def _sent(request: urllib.request.Request) -> tuple[int, Message, bytes, int]:
    """Status, fields, body and milliseconds of an answer, whatever its status.  Raises DeployUnreachable."""
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:  # noqa: S310
            told = (answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as e:
        with e:
            told = (e.code, e.headers, e.read())
    except (OSError, http.client.HTTPException) as e:
        reason = getattr(e, "reason", None) or e
        raise DeployUnreachable(
            f"no answer from {request.full_url} ({reason}): a route needs a proxied DNS record for its host, and a new "
            "one takes some minutes to be known"
        ) from e
    return (*told, round((time.monotonic() - began_s) * 1000))
