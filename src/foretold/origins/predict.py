"""A text model as a prediction service: `{"prompt": …}` in, `{"output": …}` out (rule R3)."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from msgspec.structs import replace

from foretold.answers.reshaping import LONGEST_AT_ONCE
from foretold.contract import storable
from foretold.contract.events import DONE, ends_cleanly, split
from foretold.errors import OriginCut, OriginError
from foretold.origins.whole import WholeAnswer
from foretold.ports import Asked, Forwarded, Incoming, Origin
from foretold.projections import chat
from foretold.projections.fold import NotAnAnswer
from foretold.projections.predict import answer_of, question_of

LARGEST_BYTES = 8 * 2**20
LONGEST_SHOWN = 300
NOTHING_SAID = b'{"output":""}'


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
        if len(body) <= LONGEST_AT_ONCE:
            told, is_clean = self._whole_of(incoming, body)
        else:
            told, is_clean = await asyncio.to_thread(self._whole_of, incoming, body)
        limited = asked.limited or storable.has_limit(question) or self.limits_answers
        why_not = storable.why_not("chat", 200, told, limited=limited)
        try:
            answer = answer_of(told)
        except (KeyError, IndexError, TypeError):
            raise self._no_chat() from None
        if answer == NOTHING_SAID:
            why_not = (
                why_not or "empty"
            )  # a refusal or a call is an answer to a chat, but a prediction has no place for it
        is_proven = is_clean and incoming.is_proven
        kind = [("content-type", "application/json")]
        return WholeAnswer(200, kind, answer, is_proven=is_proven, why_not=why_not or incoming.why_not)

    async def close(self) -> None:
        await self._inner.close()

    def _whole_of(self, incoming: Incoming, body: bytes) -> tuple[dict[str, Any], bool]:
        """The chat completion, and whether it came to a clean end.

        Raises OriginCut for half of one; OriginError, which is not asked again, for an error and for what is none.
        """
        kind = next((value for name, value in incoming.headers if name == "content-type"), "")
        is_all = is_clean = True
        try:
            if kind.startswith("text/event-stream"):
                events, rest = split(body)
                is_all = any(event.data == DONE for event in events)
                is_clean = ends_cleanly(events, rest)
                told = chat.whole_of(events)
            else:
                told = orjson.loads(body)
        except (NotAnAnswer, UnicodeDecodeError, orjson.JSONDecodeError):
            raise (self._no_chat() if is_all else self._half()) from None
        if not isinstance(told, dict):
            raise self._no_chat()
        if told.get("error") is not None:
            raise OriginError(f"{self.name!r} answered with an error: {_said(told['error'])}")
        if not is_all:
            raise self._half()
        return told, is_clean

    def _no_chat(self) -> OriginError:
        return OriginError(f"a prediction was asked as a chat, and what {self.name!r} answered is no chat completion")

    def _half(self) -> OriginCut:
        return OriginCut(
            f"the stream of {self.name!r} ended without its last event, [DONE]: not all of the answer came"
        )


def _as_chat(asked: Asked, question: dict[str, Any]) -> Asked:
    body = orjson.dumps({"model": asked.model, **question})
    return replace(asked, operation="chat", method="POST", path="/chat/completions", query="", body=body, usage=True)


async def _collected(incoming: Incoming) -> bytes:
    pieces, size = [], 0
    async for piece in incoming.chunks():
        size += len(piece)
        if size > LARGEST_BYTES:
            raise OriginError(f"the answer is longer than {LARGEST_BYTES} bytes, too long for a prediction")
        pieces.append(piece)
    return b"".join(pieces)


def _said(error: Any) -> str:
    """What an origin's error says, in its words."""
    message = error.get("message") if isinstance(error, dict) else error
    return message[:LONGEST_SHOWN] if isinstance(message, str) and message else "no message"
