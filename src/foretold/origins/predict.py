"""A text model as a prediction service: `{"prompt": …}` in, `{"output": …}` out (rule R3)."""

from __future__ import annotations

from typing import Any

import orjson
from msgspec.structs import replace

from foretold.contract import storable
from foretold.contract.events import ends_cleanly, split
from foretold.errors import OriginCut
from foretold.fields import by_name
from foretold.landing import is_events
from foretold.origins.whole import WholeAnswer
from foretold.ports import Asked, Forwarded, Incoming, Origin
from foretold.projections import chat
from foretold.projections.fold import NotAnAnswer
from foretold.projections.predict import answer_of, question_of

LARGEST_BYTES = 8 * 2**20


class TextPredictions:
    """An origin that also answers predictions, by asking its inner one for a chat; all else goes to that as it is."""

    def __init__(self, inner: Origin):
        self.name = inner.name
        self.limits_answers = inner.limits_answers
        self._inner = inner

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> Incoming:
        if asked.operation != "predict":
            return await self._inner.fetch(asked, forwarded)
        question = question_of(asked.body)
        incoming = await self._inner.fetch(_as_chat(asked, question), forwarded)
        if incoming.status != 200:
            return incoming
        try:
            body = await _collected(incoming)
        finally:
            await incoming.close()
        told, is_clean = _whole_of(incoming, body)
        limited = asked.limited or storable.has_limit(question) or self.limits_answers
        why_not = storable.why_not("chat", 200, told, limited=limited)
        try:
            answer = answer_of(told)
        except (KeyError, IndexError, TypeError):
            raise OriginCut(f"what {self.name!r} answered is no chat completion") from None
        is_proven = is_clean and incoming.is_proven
        kind = [("content-type", "application/json")]
        return WholeAnswer(200, kind, answer, is_proven=is_proven, why_not=why_not or incoming.why_not)

    async def close(self) -> None:
        await self._inner.close()


def _as_chat(asked: Asked, question: dict[str, Any]) -> Asked:
    body = orjson.dumps({"model": asked.model, **question})
    return replace(asked, operation="chat", method="POST", path="/chat/completions", query="", body=body, usage=True)


async def _collected(incoming: Incoming) -> bytes:
    pieces, size = [], 0
    async for piece in incoming.chunks():
        size += len(piece)
        if size > LARGEST_BYTES:
            raise OriginCut(f"the answer is longer than {LARGEST_BYTES} bytes, too long for a prediction")
        pieces.append(piece)
    return b"".join(pieces)


def _whole_of(incoming: Incoming, body: bytes) -> tuple[dict[str, Any], bool]:
    """The chat completion, and whether it came to its own end.  Raises OriginCut for what is none."""
    kind = by_name(incoming.headers).get("content-type", "")
    try:
        if is_events(kind):
            events, rest = split(body)
            return chat.whole_of(events), ends_cleanly(events, rest)
        told = orjson.loads(body)
    except (NotAnAnswer, UnicodeDecodeError, orjson.JSONDecodeError):
        raise OriginCut("a prediction was asked as a chat, and what came is no chat completion") from None
    if not isinstance(told, dict):
        raise OriginCut("a prediction was asked as a chat, and what came is no chat completion")
    return told, True
