"""How commands reach a running node: plain HTTP of the standard library, which is quick to import."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from foretold.datafolder import default_path
from foretold.errors import BadCredential, NodeError, NotFound

DEFAULT_URL = "http://127.0.0.1:3673"


class Credential(NodeError):
    code = "bad_credential"
    exit_code = 4


def node_url(given: str | None) -> str:
    return (given or os.environ.get("FORETOLD_URL") or DEFAULT_URL).rstrip("/")


def admin_token() -> str:
    """FORETOLD_ADMIN_KEY, else the token in the data folder.  Raises Credential."""
    if token := os.environ.get("FORETOLD_ADMIN_KEY"):
        return token
    path: Path = default_path() / "admin-token"
    try:
        return path.read_text().strip()
    except OSError as e:
        raise Credential(
            f"the admin token {path} can't be read ({e.strerror}): set FORETOLD_HOME to the node's data folder, or FORETOLD_ADMIN_KEY"
        ) from None


def request(
    url: str, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None, timeout_s: float = 600
) -> http.client.HTTPResponse:
    """The answer, its body not read yet.  Raises NodeError if nothing answers there."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request(method, parts.path + path, body=body, headers=dict(headers))
        return connection.getresponse()
    except (OSError, http.client.HTTPException) as e:
        reason = getattr(e, "strerror", None) or type(e).__name__
        raise NodeError(
            f"no node answers at {url} ({reason}): start one with `foretold serve`, or name it with --url"
        ) from None


def admin(url: str, method: str, path: str, body: object = None) -> Any:
    """The JSON answer of an admin path.  Raises NodeError, NotFound or Credential."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {admin_token()}", "content-type": "application/json"}
    response = request(url, method, path, headers=headers, body=sent, timeout_s=30)
    told = json.loads(response.read())
    if response.status == BadCredential.status:
        raise Credential(
            f"the node at {url} does not take this admin token: is FORETOLD_HOME the node's own data folder?"
        )
    if response.status == NotFound.status:
        raise NotFound(told["detail"])
    if response.status >= 400:
        raise NodeError(told["detail"])
    return told
