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
from foretold.errors import NodeError, Told

DEFAULT_URL = "http://127.0.0.1:3673"


def node_url(given: str | None) -> str:
    return (given or os.environ.get("FORETOLD_URL") or DEFAULT_URL).rstrip("/")


def admin_token() -> str:
    """FORETOLD_ADMIN_KEY, else the token in the data folder of the settings in force.  Raises Told or ConfigError."""
    if token := os.environ.get("FORETOLD_ADMIN_KEY"):
        return token
    from foretold.cli.settings import read_config

    data = read_config(None).data
    path = (Path(data).expanduser() if data else default_path()) / "admin-token"
    try:
        return path.read_text().strip()
    except OSError as e:
        raise Told(
            f"the admin token {path} can't be read ({e.strerror}): set FORETOLD_HOME to the node's data folder, "
            "or FORETOLD_ADMIN_KEY to its token",
            code="bad_credential",
            status=401,
        ) from None


def request(
    url: str, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None, timeout_s: float = 600
) -> http.client.HTTPResponse:
    """The answer, its body not read yet.  Raises NodeError if nothing answers there."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NodeError(f"the node's address is {url!r}: give one such as {DEFAULT_URL}")
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


def admin(url: str, method: str, path: str, body: object = None, *, timeout_s: float = 30) -> Any:
    """The JSON answer of an admin path.  Raises NodeError, or Told for what the node refused."""
    sent = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {admin_token()}", "content-type": "application/json"}
    response = request(url, method, path, headers=headers, body=sent, timeout_s=timeout_s)
    answered = response.read()
    try:
        told = json.loads(answered)
        if response.status == 401:
            message = f"the node at {url} does not take this admin token: is FORETOLD_HOME its own data folder?"
            raise Told(message, code=told["code"], status=401)
        if response.status >= 400:
            raise Told(told["detail"], code=told["code"], status=response.status)
    except (ValueError, KeyError, TypeError):
        raise NodeError(f"what answers at {url} is no Foretold node: give its address with --url") from None
    return told
