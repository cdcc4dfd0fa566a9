"""What an upstream's answer to a look at its models says about its settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from foretold.config.settings import UpstreamSettings
from foretold.doctor.addresses import without_userinfo
from foretold.doctor.finding import Note, fault, ok, several, warning

_ENDPOINTS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/models")


@dataclass(frozen=True, slots=True)
class Answer:
    """`location` is where a redirect leads."""

    status: int
    body: bytes
    took_ms: float
    location: str = ""


def judged(upstream: UpstreamSettings, answer: Answer, *, callers_bring_keys: bool) -> Iterator[Note]:
    address, status = without_userinfo(upstream.url), answer.status
    if status == 200:
        yield _listed(answer, address)
    elif status in (401, 403):
        yield _refused(upstream, status, callers_bring_keys=callers_bring_keys)
    elif status in (404, 405):
        yield _not_here(address, status)
    elif 300 <= status < 400:
        to = without_userinfo(answer.location.partition("?")[0])
        yield fault(f"it redirects to {to} ({status}), and redirects are never followed", "set url to where it leads")
    elif status == 429:
        yield warning("it answers that there were too many requests (429)", "ask less, or look at the account's limits")
    elif status >= 500:
        yield warning(f"it answers {status}: it has trouble of its own", "look again later, or at its status page")
    else:
        yield warning(f"it answers {status} to a look at its models", f"is {address} the right base address?")


def _listed(answer: Answer, address: str) -> Note:
    try:
        listed = json.loads(answer.body)["data"]
        return ok(f"answers in {answer.took_ms:.0f} ms, {several(len(listed), 'model')}")
    except (ValueError, KeyError, TypeError):
        return warning(
            f"it answers in {answer.took_ms:.0f} ms, but with no list of models",
            f"is {address} the base address of an OpenAI-compatible service?",
        )


def _refused(upstream: UpstreamSettings, status: int, *, callers_bring_keys: bool) -> Note:
    if upstream.key is not None:
        return fault(
            f"the key is refused ({status}); it comes from the {upstream.key.where}",
            "put a valid key there, and restart the node",
        )
    if callers_bring_keys:
        return ok(f"it asks for a key ({status}), and callers bring their own")
    return warning(
        f"it asks for a key ({status}), and none is set",
        f'under [upstreams.{upstream.name}]: key = {{ env = "…" }}, or pass_credential = true on its route',
    )


def _not_here(address: str, status: int) -> Note:
    base = address.rstrip("/")
    for endpoint in _ENDPOINTS:
        if base.endswith(endpoint):
            return fault(
                f"{address} has no models ({status}): it ends with the path of one endpoint",
                f'url = "{base.removesuffix(endpoint)}"',
            )
    segments = urlsplit(base).path.split("/")
    if segments.count("v1") > 1:
        return fault(f"{address} has no models ({status}): /v1 is in it twice", f'url = "{_once(base)}"')
    if "v1" not in segments:
        return warning(
            f"{address} has no models under /v1 ({status}), which is added to an address that doesn't end with it",
            f'is something missing before it, such as {base}/api/v1?  Set url to the base address up to "/v1"',
        )
    return warning(
        f"{address} has no models ({status})", "is it the right base address?  Some services have no such list"
    )


def _once(base: str) -> str:
    """The address with the first /v1 of its path, and without the others."""
    before, v1, after = base.partition("/v1")
    return before + v1 + after.replace("/v1", "")
