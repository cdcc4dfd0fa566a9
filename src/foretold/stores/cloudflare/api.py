"""One KV namespace by the REST API: each call once, in time, within what the account may ask.

Errors name the status and Cloudflare's code, never the token or what was sent.
"""

from __future__ import annotations

import asyncio
import base64
import io
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from foretold.errors import StoreError
from foretold.stores.cloudflare.budget import Budget

API = "https://api.cloudflare.com/client/v4"
LARGEST_BYTES = 25 * 2**20
LEAST_TTL_S = 60
MOST_WRITTEN_AT_ONCE = 10_000
# Of values, before base64 makes four bytes of three: a request may have 100 MB.
MOST_BYTES_AT_ONCE = 64 * 2**20
MOST_READ_AT_ONCE = 100
A_PAGE = 1000
_LEAST_PAGE = 10
CALL_S = 10.0
# A Retry-After that asks for longer is one for the five minutes of the account's limit.
LONGEST_PAUSE_S = 300.0
WRITES_OF_THE_DAY = 10048
NO_SUCH_KEY = 10009
_DAY_S = 86_400.0
_LARGEST_REPLY_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a namespace is, and what opens it."""

    account_id: str
    namespace_id: str
    token: str = field(repr=False)
    url: str = API


class Value(NamedTuple):
    """`ttl_s` is None for what stays."""

    name: str
    content: bytes
    ttl_s: int | None


class KvApi:
    def __init__(
        self,
        place: Place,
        budget: Budget,
        *,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
        call_s: float = CALL_S,
    ):
        ids = f"accounts/{quote(place.account_id, safe='')}/storage/kv/namespaces/{quote(place.namespace_id, safe='')}"
        self._base = f"{place.url.rstrip('/')}/{ids}"
        self._token = place.token
        self._budget = budget
        self._now_s = now_s
        self._wall_s = wall_s
        self._call_s = call_s
        self._closed_until_s = 0.0
        self._written_up_until_s = 0.0
        self._session: aiohttp.ClientSession | None = None

    async def get(self, name: str) -> bytes | None:
        """The value under a name, None if there is none.  Raises StoreError."""
        if not self._budget.take_to_read():
            raise StoreError("the account's calls are used up for the moment: nothing is read from KV")
        status, content = await self._call("GET", f"/values/{quote(name, safe='')}", limit_bytes=LARGEST_BYTES)
        if status == 404 and _code(content) == NO_SUCH_KEY:
            return None
        self._check(status, content)
        return content

    async def put_all(self, values: Sequence[Value]) -> set[str]:
        """Writes them in as few calls as their number and size allow; the names that KV did not take.

        Raises StoreError if a call failed: then none of those that are left is known to be written.
        """
        self._check_day()
        refused: set[str] = set()
        for part in _parts(values):
            # In a thread: some megabytes as base64 take as long as many hits.
            sent = await asyncio.to_thread(_bulk, part)
            refused |= _unsuccessful(await self._asked("PUT", "/bulk", sent))
        return refused

    async def delete_all(self, names: Sequence[str]) -> set[str]:
        """The names that KV did not delete.  Raises StoreError."""
        refused: set[str] = set()
        for at in range(0, len(names), MOST_WRITTEN_AT_ONCE):
            sent = orjson.dumps(list(names[at : at + MOST_WRITTEN_AT_ONCE]))
            refused |= _unsuccessful(await self._asked("POST", "/bulk/delete", sent))
        return refused

    async def texts(self, names: Sequence[str]) -> dict[str, str]:
        """The values of those names that have one.  Raises StoreError."""
        found: dict[str, str] = {}
        for at in range(0, len(names), MOST_READ_AT_ONCE):
            part = list(names[at : at + MOST_READ_AT_ONCE])
            told = await self._asked("POST", "/bulk/get", orjson.dumps({"keys": part, "type": "text"}))
            values = told.get("result", {}).get("values") if isinstance(told.get("result"), dict) else None
            if not isinstance(values, dict):
                raise StoreError("KV answered a bulk read with something else")
            found |= {name: value for name in part if isinstance(value := values.get(name), str)}
        return found

    async def names(self, prefix: str) -> list[str]:
        """All names that begin so.  Raises StoreError."""
        found: list[str] = []
        cursor = ""
        while True:
            after = f"&cursor={quote(cursor, safe='')}" if cursor else ""
            told = await self._asked("GET", f"/keys?limit={A_PAGE}&prefix={quote(prefix, safe='')}{after}", None)
            try:
                found += [str(row["name"]) for row in told["result"]]
                cursor = str((told.get("result_info") or {}).get("cursor") or "")
            except (KeyError, TypeError, AttributeError):
                raise StoreError("KV answered a list of names with something else") from None
            if not cursor:
                return [name for name in found if name.startswith(prefix)]

    async def first_names(self, prefix: str) -> list[str]:
        """The first names that begin so, a few.  Raises StoreError."""
        told = await self._asked("GET", f"/keys?limit={_LEAST_PAGE}&prefix={quote(prefix, safe='')}", None)
        try:
            return [str(row["name"]) for row in told["result"]]
        except (KeyError, TypeError):
            raise StoreError("KV answered a list of names with something else") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _asked(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        """The JSON of a call that must be made."""
        if not self._budget.take():
            raise StoreError("the account's calls are used up for the moment: KV is not asked")
        status, content = await self._call(method, path, body=body, limit_bytes=_LARGEST_REPLY_BYTES)
        self._check(status, content)
        try:
            told = orjson.loads(content)
        except orjson.JSONDecodeError:
            told = None
        if not isinstance(told, dict) or told.get("success") is not True:
            raise StoreError("KV answered with what is no answer of its API")
        return told

    async def _call(self, method: str, path: str, *, body: bytes | None = None, limit_bytes: int) -> tuple[int, bytes]:
        """Status and body.  Raises StoreError if there is no whole answer in time."""
        wait_s = self._closed_until_s - self._now_s()
        if wait_s > 0:
            raise StoreError(f"KV wants no calls for {math.ceil(wait_s)} s")
        headers = {"authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            async with asyncio.timeout(self._call_s):
                async with self._opened().request(
                    method,
                    URL(self._base + path, encoded=True),
                    data=None if body is None else io.BytesIO(body),
                    headers=headers,
                    allow_redirects=False,
                ) as response:
                    content = await _read(response, limit_bytes)
                    retry_after = response.headers.get("retry-after", "")
        except TimeoutError:
            raise StoreError(f"KV gave no answer within {self._call_s:g} s") from None
        except aiohttp.ClientPayloadError:
            raise StoreError("KV's answer broke off") from None
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise StoreError(f"KV can't be reached ({type(e).__name__})") from None
        if response.status == 429:
            self._pause(content, retry_after)
        return response.status, content

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=32),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    def _pause(self, content: bytes, retry_after: str) -> None:
        if _code(content) == WRITES_OF_THE_DAY:
            now_s = self._wall_s()
            self._written_up_until_s = (now_s // _DAY_S + 1) * _DAY_S
            return
        try:
            wait_s = float(retry_after)
        except ValueError:
            wait_s = 1.0
        self._closed_until_s = self._now_s() + min(max(wait_s, 1.0), LONGEST_PAUSE_S)

    def _check_day(self) -> None:
        if self._wall_s() < self._written_up_until_s:
            raise StoreError("KV takes no more writes of this account today: again after midnight UTC")

    def _check(self, status: int, content: bytes) -> None:
        if status == 200:
            return
        code = _code(content)
        told = f"status {status}" + (f", code {code}" if code is not None else "")
        if status in (401, 403) or (status < 500 and code in (6003, 9109, 10000)):
            raise StoreError(
                f"KV does not take the token ({told}): it needs Workers KV Storage, Edit, for this account"
            )
        if code == WRITES_OF_THE_DAY:
            self._check_day()
        if status == 404 and code in (10013, 7003):
            raise StoreError(f"there is no such KV namespace ({told}): compare account_id and namespace_id")
        raise StoreError(f"KV refused a call ({told})")


async def _read(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit_bytes:
            response.close()
            raise StoreError(f"KV's answer is longer than {limit_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _parts(values: Sequence[Value]) -> Iterable[Sequence[Value]]:
    part: list[Value] = []
    size = 0
    for value in values:
        if part and (len(part) >= MOST_WRITTEN_AT_ONCE or size + len(value.content) > MOST_BYTES_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(value)
        size += len(value.content)
    if part:
        yield part


def _bulk(values: Sequence[Value]) -> bytes:
    return orjson.dumps([_told(value) for value in values])


def _told(value: Value) -> dict[str, Any]:
    told: dict[str, Any] = {"key": value.name, "value": base64.b64encode(value.content).decode(), "base64": True}
    if value.ttl_s is not None:
        told["expiration_ttl"] = max(LEAST_TTL_S, value.ttl_s)
    return told


def _unsuccessful(told: dict[str, Any]) -> set[str]:
    result = told.get("result")
    names = result.get("unsuccessful_keys") if isinstance(result, dict) else None
    return {str(name) for name in names} if isinstance(names, list) else set()


def _code(content: bytes) -> int | None:
    """The first of an answer's error codes."""
    try:
        return int(orjson.loads(content)["errors"][0]["code"])
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, ValueError):
        return None
