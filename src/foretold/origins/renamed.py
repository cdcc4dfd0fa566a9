"""An upstream that knows a model by another name than callers do."""

from __future__ import annotations

import orjson
from msgspec.structs import replace

from foretold.flights.forwarding import from_raw_members, raw_members
from foretold.ports import Asked, Forwarded, Incoming, Origin


class Renamed:
    """Asks its inner origin for `model`, whatever was asked for; all else goes to it as it is."""

    def __init__(self, inner: Origin, model: str):
        self.name = inner.name
        self.limits_answers = inner.limits_answers
        self._inner = inner
        self._model = model

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> Incoming:
        members = raw_members(asked.body)
        body = from_raw_members({**members, "model": orjson.dumps(self._model)})
        return await self._inner.fetch(replace(asked, model=self._model, body=body), forwarded)

    async def close(self) -> None:
        await self._inner.close()
