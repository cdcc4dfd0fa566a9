"""Cloudflare's errors in our words: which call, what it said, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from foretold.deploy.permissions import TOKENS_PAGE, Permission
from foretold.errors import ConfigError, DeployError, DeployForbidden, DeployUnreachable

if TYPE_CHECKING:
    import httpx
    from cloudflare import APIStatusError, Cloudflare

API = "https://api.cloudflare.com/client/v4"
INSTALL = "pip install 'foretold[cloudflare]'"

# What the API's own text doesn't tell: what to do.  By the code in its answer.
_ADVICE = {
    10013: "Cloudflare has a fault of its own: run it again in a while",
    10014: "the namespace was made meanwhile: run it again",
    10020: "another Worker has this route: run `plan`, which names it",
    10021: "Cloudflare could not start the Worker's code; nothing was replaced",
    10004: "the bucket was made meanwhile: run it again",
    10027: "the script is too large for the account's plan: leave modules or static files out, or change the plan",
    10037: "the account has as many Workers as its plan allows: remove one, or change the plan",
    10042: "R2 is not turned on in this account: turn it on in the dashboard, under R2, or leave [r2] out",
    10048: "the free plan's limit for today is reached: it opens again at 00:00 UTC",
    10008: "the bucket still holds objects: add --with-answers to delete them too",
    100117: "the host has a DNS record of its own: remove that record in the zone first",
}


# Of the answers with status 403, those that speak of the token; others speak of the account's plan.
_OF_THE_TOKEN = frozenset({1000, 6003, 6111, 9106, 9109, 10000, 10001})


def client(token: str, *, base_url: str, retries: int) -> Cloudflare:
    """Raises ConfigError without the SDK, or with a token that can't be one."""
    try:
        from cloudflare import Cloudflare, DefaultHttpxClient
    except ImportError:
        raise ConfigError(f"deploying needs Cloudflare's SDK: {INSTALL}") from None
    _check_address(base_url)
    if not token:
        raise DeployForbidden(f"CLOUDFLARE_API_TOKEN is not set: make a token at {TOKENS_PAGE}")
    if not token.isascii() or any(c.isspace() for c in token):
        raise DeployForbidden("CLOUDFLARE_API_TOKEN has a space, a line end or a foreign letter in it: copy it anew")
    asking = DefaultHttpxClient(event_hooks={"response": [_check_kind]})
    made = Cloudflare(api_token=token, base_url=base_url, max_retries=retries, http_client=asking)
    # Of the environment, which the SDK would send instead of the token.
    made.api_email = made.api_key = made.user_service_key = None
    return made


def _check_address(base_url: str) -> None:
    """The token goes there: in the clear only to this machine itself."""
    at = urlsplit(base_url)
    if at.scheme not in ("https", "http") or not at.hostname:
        raise ConfigError(f"CLOUDFLARE_API_BASE_URL is {base_url!r}: give an address such as {API}")
    if at.scheme == "http" and at.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError(f"CLOUDFLARE_API_BASE_URL is {base_url!r}: over http:// the token could be read on its way")


def _check_kind(response: httpx.Response) -> None:
    """Whoever answers for the API, such as a network's sign-in page, is no API."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    if response.is_success and kind != "application/json" and "/objects/" not in response.url.path:
        raise OSError(f"an answer of type {kind or 'none'} instead of JSON: something on the way answers in its place")


@contextmanager
def asked(doing: str, *, permission: Permission | None = None, absent_is_none: bool = False) -> Iterator[None]:
    """Around calls of the SDK.  With `absent_is_none`, what isn't there ends the block silently.

    Raises DeployForbidden, DeployUnreachable, DeployError.
    """
    import cloudflare

    try:
        yield
    except cloudflare.NotFoundError as e:
        if not absent_is_none:
            raise DeployError(f"{doing}: {_said(e)}") from e
    except (cloudflare.AuthenticationError, cloudflare.PermissionDeniedError) as e:
        codes = {told.code for told in e.errors or ()}
        if codes and not codes & _OF_THE_TOKEN:
            raise DeployError(_refused(doing, e)) from e
        raise DeployForbidden(_forbidden(doing, e, permission)) from e
    except cloudflare.APIStatusError as e:
        raise DeployError(_refused(doing, e)) from e
    except cloudflare.APIConnectionError as e:
        why = str(e.__cause__ or e).strip() or type(e.__cause__ or e).__name__
        raise DeployUnreachable(
            f"{doing}: no answer from {e.request.url.host} ({why}); what was done stays, run it again to go on"
        ) from e


def _forbidden(doing: str, error: APIStatusError, permission: Permission | None) -> str:
    codes = [e.code for e in error.errors or ()]
    if error.status_code == 401 or 1000 in codes:
        return f"Cloudflare doesn't know this API token ({_said(error)}): make one at {TOKENS_PAGE}"
    if permission is None:
        return f"{doing}: {_said(error)}"
    return (
        f"{doing}: the API token may not do this ({_said(error)}); add to it, at {TOKENS_PAGE}:\n"
        f"    {permission}\n  What was done stays; run it again to go on."
    )


def _refused(doing: str, error: APIStatusError) -> str:
    codes = [e.code for e in error.errors or ()]
    advice = next((_ADVICE[code] for code in codes if code in _ADVICE), None)
    if advice is None and error.status_code == 429:
        advice = "Cloudflare takes 1,200 calls in five minutes: run it again after that"
    if advice is None and error.status_code >= 500:
        advice = "run it again: what was done stays"
    return f"{doing}: {_said(error)}{f'; {advice}' if advice else ''}"


def _said(error: APIStatusError) -> str:
    """The API's own words, with its codes."""
    told = [f"{e.message} [{e.code}]" for e in error.errors or ()]
    return "; ".join(told) or f"status {error.status_code}"
