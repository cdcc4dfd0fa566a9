"""What a Worker does and says while somebody listens: the account's tail, by websocket.

Of a request only method, address without query, and status are told: header fields and queries may hold credentials.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from foretold.errors import DeployError, DeployUnreachable

PROTOCOL = "trace-v1"
CONNECT_S = 30.0
# A dead connection is noticed within two of these.
HEARTBEAT_S = 10.0
# Whoever stops listening doesn't wait long for the other side's goodbye.
GOODBYE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the Worker.  `at` is UTC; `outcome` is ok, exception, exceededCpu, canceled …; `said` are its log
    lines, `faults` the exceptions that nobody caught.
    """

    at: str
    what: str
    status: int | None
    outcome: str
    said: tuple[str, ...]
    faults: tuple[str, ...]


async def follow(url: str) -> AsyncIterator[Run]:
    """The runs as they end.  Raises DeployUnreachable when nothing more comes."""
    import aiohttp

    wait = aiohttp.ClientWSTimeout(ws_close=GOODBYE_S)
    async with aiohttp.ClientSession(trust_env=True, timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_S)) as session:
        try:
            socket = await session.ws_connect(url, protocols=(PROTOCOL,), heartbeat=HEARTBEAT_S, timeout=wait)
        except (aiohttp.ClientError, TimeoutError) as e:
            raise DeployUnreachable(f"the tail could not be opened ({e}): run it again") from e
        async with socket:
            await socket.send_json({"debug": False})
            async for message in socket:
                if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    yield run_of(_read(message.data))
    raise DeployUnreachable("Cloudflare ended the tail, as it does after some hours: run it again to go on listening")


def _read(told: str | bytes) -> dict[str, Any]:
    try:
        event = json.loads(told)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise DeployError("the tail sent something that is no event: this program may be too old for it")
    return event


def lines_of(content: bytes, key: str) -> list[str]:
    """Of a kept object, packed or not.  Raises DeployError."""
    try:
        return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as e:
        raise DeployError(f"the object {key!r} is no log of lines: {e}") from None


def run_of(event: dict[str, Any]) -> Run:
    """Of an event as the API tells it; what isn't a request is named by its kind."""
    cause = event.get("event") or {}
    request = cause.get("request")
    status = (cause.get("response") or {}).get("status")
    return Run(
        at=_time(event.get("eventTimestamp")),
        what=_asked(request) if request else str(cause.get("message") or cause.get("cron") or "another event"),
        status=status if isinstance(status, int) else None,
        outcome=str(event.get("outcome") or "unknown"),
        said=tuple(_line(line) for line in event.get("logs") or ()),
        faults=tuple(f"{e.get('name')}: {e.get('message')}" for e in event.get("exceptions") or ()),
    )


def _asked(request: dict[str, Any]) -> str:
    at = urlsplit(str(request.get("url", "")))
    return f"{request.get('method', '?')} {at.hostname or ''}{at.path}"


def _line(line: dict[str, Any]) -> str:
    said = line.get("message")
    words = said if isinstance(said, list) else [said]
    return f"{line.get('level', 'log')}: {' '.join(w if isinstance(w, str) else json.dumps(w) for w in words)}"


def _time(at_ms: Any) -> str:
    if not isinstance(at_ms, int | float):
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
