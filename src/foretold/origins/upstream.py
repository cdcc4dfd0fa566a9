"""An HTTP service as origin: OpenAI-compatible, or any that answers JSON.

Bytes are taken raw, and an answer counts as whole only where its framing and its coding say so.  Redirects are never
followed, cookies never kept, and loopback is never reached through a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from foretold.errors import OriginCut, OriginError, OriginTimeout, OriginUnreachable, Refused
from foretold.fields import as_utf8, by_name, from_wire
from foretold.origins.coding import Identity, Unknown, decoder_for
from foretold.origins.connections import OneAnswerEach
from foretold.ports import Asked, Forwarded

_NOT_OURS_TO_PASS = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-encoding",
        "server",
        "alt-svc",
        "strict-transport-security",
        "nel",
        "report-to",
    ]
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER_IN_AN_ADDRESS = re.compile(r"[\x00-\x20\x7f]")
_MAX_HEADER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, to the answer's head, between two pieces of it, and altogether."""

    connect_s: float = 3.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 600.0


class Upstream:
    limits_answers = False

    def __init__(
        self,
        name: str,
        url: str,
        *,
        key: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        timeouts: Timeouts = Timeouts(),
        connections: int = 256,
    ):
        """`url` is the base under which paths are asked; `key` goes as a bearer token where the route passes none."""
        self.name = name
        self._url = url.rstrip("/")
        self._key = key
        self._headers = tuple(headers)
        self._timeouts = timeouts
        self._connections = connections
        self._proxy = proxy_for(url)
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> UpstreamAnswer:
        # The total runs from here to the last chunk, so the answer carries the deadline on.
        deadline = asyncio.get_running_loop().time() + self._timeouts.total_s
        try:
            async with asyncio.timeout(self._timeouts.first_byte_s):
                response = await self._open_session().request(
                    asked.method if asked.method != "QUERY" else "POST",
                    self._address(asked),
                    data=io.BytesIO(asked.body) if asked.body else None,
                    headers=self._request_headers(asked, forwarded),
                    allow_redirects=False,
                    proxy=self._proxy,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as e:
            raise OriginUnreachable(f"upstream {self.name!r} can't be reached: {_reason(e)}") from None
        except TimeoutError:
            raise OriginTimeout(
                f"upstream {self.name!r} gave no answer within {self._timeouts.first_byte_s:g} s"
            ) from None
        except aiohttp.ServerConnectionError:
            raise OriginCut(f"upstream {self.name!r} closed the connection before answering") from None
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise OriginError(f"upstream {self.name!r} answered what is not HTTP: {type(e).__name__}") from None
        if response.status == 101:
            response.close()
            raise OriginError(f"upstream {self.name!r} changed the protocol, which nobody asked for")
        return UpstreamAnswer(self.name, response, idle_s=self._timeouts.idle_s, deadline=deadline)

    async def close(self) -> None:
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise OriginUnreachable(f"upstream {self.name!r} is closed: the settings name it no more")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=OneAnswerEach(limit=self._connections, ttl_dns_cache=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_s),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            )
        return self._session

    def _address(self, asked: Asked) -> URL:
        """Path and query string go out as they came, byte for byte: the key is of these, not of another spelling."""
        path = asked.path
        if self._url.endswith("/v1") and (path == "/v1" or path.startswith("/v1/")):
            path = path.removeprefix("/v1")
        address = f"{self._url}{path}?{asked.query}" if asked.query else f"{self._url}{path}"
        if _NEVER_IN_AN_ADDRESS.search(address):
            raise Refused("the path or the query string has a space or a control character", code="bad_path")
        return URL(address, encoded=True)

    def _request_headers(self, asked: Asked, forwarded: Forwarded) -> list[tuple[str, str]]:
        headers = [*forwarded.headers, ("accept-encoding", "identity")]
        if asked.body and not any(name == "content-type" for name, _ in headers):
            headers.append(("content-type", "application/json"))
        if forwarded.credential is not None:
            headers.append(forwarded.credential)
        elif self._key is not None and forwarded.may_use_own:
            headers.append(("authorization", f"Bearer {self._key}"))
        fixed = {name.lower() for name, _ in self._headers}
        return [(name, as_utf8(value)) for name, value in headers if name not in fixed] + list(self._headers)


class Stalled(Exception):
    """No piece of an answer came within its time."""


class Watch:
    """One timer for all pieces of an answer: it looks now and then whether one has come, which costs each nothing."""

    def __init__(self, response: aiohttp.ClientResponse, *, idle_s: float, deadline: float):
        self._loop = asyncio.get_running_loop()
        self._response = response
        self._idle_s = idle_s
        self._deadline = deadline
        self.begins()
        self._timer = self._loop.call_at(self._due(), self._look)

    def begins(self) -> None:
        """From now on a piece is waited for; while whoever reads is busy, nobody waits."""
        self.is_waiting = True
        self._since = self._loop.time()

    def end(self) -> None:
        self._timer.cancel()

    def _due(self) -> float:
        since = self._since if self.is_waiting else self._loop.time()
        return min(since + self._idle_s, self._deadline)

    def _look(self) -> None:
        if self._loop.time() < self._due():
            self._timer = self._loop.call_at(self._due(), self._look)
        else:
            self._response.content.set_exception(Stalled())


class UpstreamAnswer:
    """An answer whose head is here."""

    is_fallback = False
    why_not: str | None = None

    def __init__(self, upstream: str, response: aiohttp.ClientResponse, *, idle_s: float, deadline: float):
        self.status = response.status
        fields = [from_wire(name, value) for name, value in response.raw_headers]
        told = by_name(fields)
        coding = told.get("content-encoding", "")
        self._decoder = decoder_for(coding)
        dropped = _NOT_OURS_TO_PASS.union(part.strip(" \t").lower() for part in told.get("connection", "").split(","))
        self.headers = [field for field in fields if field[0] not in dropped]
        if isinstance(self._decoder, Unknown):
            self.headers.append(("content-encoding", coding))
        self.length = response.content_length if isinstance(self._decoder, Identity) else None
        self._is_framed = (
            response.content_length is not None
            or told.get("transfer-encoding", "").lower() == "chunked"
            or response.status in (204, 304)
        )
        self._upstream = upstream
        self._response = response
        self._idle_s = idle_s
        self._deadline = deadline
        self._ended = False

    @property
    def is_proven(self) -> bool:
        return self._ended and self._is_framed and self._decoder.is_at_end

    async def chunks(self) -> AsyncIterator[bytes]:
        content = self._response.content
        watch = Watch(self._response, idle_s=self._idle_s, deadline=self._deadline)
        try:
            while True:
                watch.begins()
                chunk = await content.readany()
                watch.is_waiting = False
                if not chunk:
                    break
                for piece in self._decoder.decode(chunk):
                    yield piece
        except Stalled:
            raise OriginTimeout(f"upstream {self._upstream!r} stalled in mid-answer") from None
        except (aiohttp.ClientError, OSError):
            raise OriginCut(f"upstream {self._upstream!r} broke off in mid-answer") from None
        finally:
            watch.end()
        if not self._decoder.is_at_end and not isinstance(self._decoder, Unknown):
            raise OriginCut(f"upstream {self._upstream!r} sent a coded answer that has no end")
        self._ended = True

    async def close(self) -> None:
        # Only an answer read to its end leaves a connection worth keeping; `close` on the others stops the work.
        if self._ended:
            self._response.release()
        else:
            self._response.close()


def _reason(error: Exception) -> str:
    cause = getattr(error, "os_error", None)
    if isinstance(error, TimeoutError):
        return "no connection in time"
    return (cause.strerror or type(cause).__name__) if isinstance(cause, OSError) else type(error).__name__


def proxy_for(url: str) -> str | None:
    """The proxy the environment names for an address; none for loopback."""
    parts = urlsplit(url)
    if parts.hostname is None or parts.hostname in _LOOPBACK or parts.hostname.startswith("127."):
        return None
    with contextlib.suppress(OSError):
        if urllib.request.proxy_bypass(parts.netloc):
            return None
    return urllib.request.getproxies().get(parts.scheme)
