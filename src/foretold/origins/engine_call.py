"""One call of an engine: its connection, how long its silence is borne, and what its end means."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from foretold.errors import OriginCut, OriginError, OriginTimeout, OriginUnready
from foretold.models.host import Door

_LONGEST_ERROR_BYTES = 64 * 1024
_LONGEST_ANSWER_BYTES = 64 * 2**20
_ENGINE_ONLY = frozenset({"return_progress", "cache_prompt"})


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for a free slot, to the engine's first sign of life, between two of them, and altogether.

    Progress in reading the prompt is a sign of life.
    """

    slot_s: float = 60.0
    first_s: float = 60.0
    idle_s: float = 60.0
    total_s: float = 600.0


class EngineAway(OriginUnready):
    """Nobody listens at the socket: nothing was sent."""


class EngineSilent(OriginTimeout):
    """No sign of life, though the engine has a slot for us: it hangs."""


class EngineCall:
    """One connection for one answer: a kept one would outlive the process behind it."""

    def __init__(self, door: Door, *, model: str, patience: Patience):
        self.status = 0
        self._door = door
        self._model = model
        self._patience = patience
        self._deadline_s = asyncio.get_running_loop().time() + patience.total_s
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True)
            if door.port
            else aiohttp.UnixConnector(str(door.socket), force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._response: aiohttp.ClientResponse | None = None

    async def ask(self, route: str, body: dict[str, Any]) -> None:
        """Returns with the answer's head.  Raises EngineAway, EngineSilent or OriginCut.

        OriginCut is not asked again here: it may be the question that ended the engine.
        """
        try:
            async with asyncio.timeout(self._patience.first_s):
                self._response = await self._session.post(
                    f"http://127.0.0.1:{self._door.port}{route}" if self._door.port else f"http://engine{route}",
                    data=orjson.dumps(_worded(body, self._door)),
                    headers={"authorization": f"Bearer {self._door.api_key}", "content-type": "application/json"},
                    allow_redirects=False,
                )
        except TimeoutError:
            raise EngineSilent(f"model {self._model!r} gave no sign of life in {self._patience.first_s:g} s") from None
        except aiohttp.ClientConnectorError:
            raise EngineAway(f"model {self._model!r} takes no connections now: ask again in a moment") from None
        except (aiohttp.ClientError, OSError):
            raise OriginCut(f"the engine of model {self._model!r} ended before it answered") from None
        self.status = self._response.status

    async def piece(self) -> bytes:
        """The next bytes of the answer, none at its end.  Raises EngineSilent, OriginTimeout or OriginCut."""
        assert self._response is not None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(loop.time() + self._patience.idle_s, self._deadline_s)):
                return await self._response.content.readany()
        except TimeoutError:
            if loop.time() >= self._deadline_s:
                raise OriginTimeout(
                    f"model {self._model!r} did not end its answer within {self._patience.total_s:g} s"
                ) from None
            raise EngineSilent(f"model {self._model!r} was silent for {self._patience.idle_s:g} s") from None
        except (aiohttp.ClientError, OSError):
            raise OriginCut(f"the engine of model {self._model!r} ended in mid-answer") from None

    async def whole(self) -> bytes:
        """All that is left of the answer.  Raises as `piece` does, and OriginError for one that has no end."""
        said = bytearray()
        while piece := await self.piece():
            said += piece
            if len(said) > _LONGEST_ANSWER_BYTES:
                raise OriginError(f"the engine of model {self._model!r} answered without an end")
        return bytes(said)

    async def error(self) -> Any:
        """What the engine says where its status is not 200; an empty object if that cannot be read."""
        said = bytearray()
        while len(said) < _LONGEST_ERROR_BYTES and (piece := await self.piece()):
            said += piece
        try:
            told = orjson.loads(said)
        except orjson.JSONDecodeError:
            return {}
        return told.get("error", {}) if isinstance(told, dict) else {}

    async def close(self) -> None:
        """Drops the connection, by which the engine knows to stop; harmless when called twice."""
        if self._response is not None:
            self._response.close()
        await self._session.close()


def _worded(body: dict[str, Any], door: Door) -> dict[str, Any]:
    """For a program that isn't our engine without what only that knows, and with the model's name there."""
    if not door.asks_for:
        return body
    return {name: value for name, value in body.items() if name not in _ENGINE_ONLY} | {"model": door.asks_for}
