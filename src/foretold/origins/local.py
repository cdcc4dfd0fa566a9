"""A model of this machine as origin.

Its engine is always asked for a stream, because closing that is the only cancel it notices, and never for more at once
than it has slots, so that its silence means a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any, Protocol

from foretold.contract.events import Splitter
from foretold.errors import ModelError, OriginCut, OriginTimeout, OriginUnready, Refused
from foretold.models.host import Door
from foretold.models.manifest import Manifest
from foretold.origins import embedding
from foretold.origins.engine_call import EngineAway, EngineCall, EngineSilent, Patience
from foretold.origins.fields import calls_once, engine_body, must_call, wants_json
from foretold.origins.transcript import EngineFailed, Transcript, failure
from foretold.origins.whole import WholeAnswer
from foretold.ports import Asked, Forwarded, Incoming

# The engine has many more routes; no other is ever asked.
_ROUTES = {"chat": "/v1/chat/completions", "completion": "/v1/completions", "embedding": "/v1/embeddings"}
_QUESTIONS = {"chat": "messages", "completion": "prompt"}
PATIENCE = Patience()
# What a token may take where nothing is heard until the end.
_TOKEN_S = 0.5
_JSON = [("content-type", "application/json")]
_EVENTS = [("content-type", "text/event-stream; charset=utf-8")]


class Doorkeeper(Protocol):
    """Whoever starts the engine: its host, or another process that has the host."""

    async def start(self) -> Door:
        """Raises ModelError."""
        ...

    async def condemn(self, door: Door, why: str) -> None: ...


class Slots(Protocol):
    """As many answers as the engine makes at once."""

    async def acquire(self) -> object:
        """Raises OriginBusy where too many wait already."""
        ...

    def release(self, keep_alive_s: float | None = None) -> None:
        """`keep_alive_s` is what the caller asked for: how long the model stays loaded after it."""
        ...


class OwnSlots:
    """Those of a model that nothing else shares."""

    def __init__(self, count: int):
        self._free = asyncio.Semaphore(count)

    async def acquire(self) -> None:
        await self._free.acquire()

    def release(self, keep_alive_s: float | None = None) -> None:
        self._free.release()


class LocalOrigin:
    """Answers chat and text completions, or makes vectors.

    The host is the caller's: closing the origin does not stop it.
    """

    limits_answers = True

    def __init__(
        self, host: Doorkeeper, manifest: Manifest, *, patience: Patience = PATIENCE, slots: Slots | None = None
    ):
        """`slots` are those of the engine, where it is one of several or other processes use it too."""
        self.name = manifest.name
        self.engine = _engine() if manifest.engine == "gguf" else manifest.engine
        self._host = host
        self.manifest = manifest
        self._patience = patience
        self._slots: Slots = OwnSlots(manifest.parallel) if slots is None else slots

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> Incoming:
        """The answer once its first tokens are here, always a stream; vectors when all of them are here.

        Or why the engine does not take the question.
        """
        if asked.operation not in _ROUTES or asked.operation not in self.manifest.capabilities:
            can = ", ".join(sorted(self.manifest.capabilities))
            raise Refused(
                f"model {self.name!r} does not answer {asked.operation!r}: it can {can}", code="unsupported_operation"
            )
        if asked.operation == "embedding":
            wanted = embedding.wanted(asked.body, self.manifest)
            return await self._in_a_slot(forwarded, lambda slot: self._embed(slot, wanted))
        body = engine_body(asked.operation, asked.body, self.manifest)
        return await self._in_a_slot(forwarded, lambda slot: self._answer(slot, asked.operation, body))

    async def close(self) -> None:
        """Each answer is closed by whoever reads it."""

    async def _in_a_slot(self, forwarded: Forwarded, answer: Callable[[Slot], Awaitable[Incoming]]) -> Incoming:
        await self._take_slot()
        slot = Slot(self._slots, keep_alive_s=forwarded.keep_alive_s)
        try:
            return await answer(slot)
        except BaseException:
            # Also when cancelled: the engine works on until its connection is closed.
            await slot.leave()
            raise

    async def _answer(self, slot: Slot, operation: str, body: dict[str, Any]) -> Incoming:
        door = await self._ask(slot, _ROUTES[operation], body)
        call = slot.call
        assert call is not None

        async def condemn() -> None:
            await self._host.condemn(door, "the engine stopped answering")

        transcript = Transcript(
            operation,
            fingerprint=self.engine,
            wants_json=wants_json(body),
            must_call=must_call(body),
            calls_once=calls_once(body),
        )
        answer = LocalAnswer(slot, transcript, condemn)
        try:
            if call.status == 200:
                await answer.begin()
                return answer
            status, error = call.status, await call.error()
        except EngineFailed as e:
            status, error = e.status, e.error
        await slot.leave()
        if status in (401, 403, 404):
            raise OriginUnready(f"what listens for model {self.name!r} is not the engine that was started")
        status, told = failure(status, error, question=_QUESTIONS[operation], model=self.name)
        return WholeAnswer(status, _JSON, told, is_proven=True)

    async def _embed(self, slot: Slot, wanted: embedding.Wanted) -> Incoming:
        rows: list[list[float]] = []
        tokens = 0
        try:
            async with asyncio.timeout(self._patience.total_s):
                for part in embedding.parts(wanted.inputs, context=self.manifest.context):
                    made = await self._vectors(slot, part)
                    rows += made.rows
                    tokens += made.tokens
                    embedding.check_dimensions(wanted, rows, model=self.name)
        except TimeoutError:
            raise OriginTimeout(
                f"model {self.name!r} did not make {len(wanted.inputs):,} vectors within {self._patience.total_s:g} s:"
                " ask for fewer at once"
            ) from None
        await slot.leave()
        body = embedding.answer(rows, tokens=tokens, model=self.name)
        return WholeAnswer(200, _JSON, body, is_proven=True)

    async def _vectors(self, slot: Slot, part: embedding.Part) -> embedding.Vectors:
        """Those of one call, which gives no sign of life before its end."""
        patience = replace(self._patience, first_s=self._patience.first_s + _TOKEN_S * part.tokens)
        await self._ask(slot, _ROUTES["embedding"], embedding.engine_body(part), patience=patience)
        call = slot.call
        assert call is not None
        if call.status == 200:
            return embedding.vectors(await call.whole(), part)
        if (refused := embedding.refusal(await call.error(), part, self.manifest)) is not None:
            raise refused
        raise OriginUnready(f"the engine of model {self.name!r} made no vectors: ask again")

    async def _ask(self, slot: Slot, route: str, body: dict[str, Any], *, patience: Patience | None = None) -> Door:
        """Asks the running engine; once more if it died unseen, because then nothing was sent."""
        patience = patience or self._patience
        try:
            return await self._ask_once(slot, route, body, patience)
        except EngineAway:
            return await self._ask_once(slot, route, body, patience)

    async def _ask_once(self, slot: Slot, route: str, body: dict[str, Any], patience: Patience) -> Door:
        try:
            door = await self._host.start()
        except ModelError as e:
            # Its words name files of this machine: they stay in the cause.
            raise OriginUnready(f"model {self.name!r} does not run now: the node's log says why") from e
        await slot.use(EngineCall(door, model=self.name, patience=patience))
        assert slot.call is not None
        try:
            await slot.call.ask(route, body)
        except (EngineAway, EngineSilent) as e:
            await self._host.condemn(door, str(e))
            raise
        return door

    async def _take_slot(self) -> None:
        try:
            async with asyncio.timeout(self._patience.slot_s):
                await self._slots.acquire()
        except TimeoutError:
            raise OriginUnready(
                f"model {self.name!r} is busy: it makes {self.manifest.parallel} answers at once,"
                f" and none ended within {self._patience.slot_s:g} s"
            ) from None


class Slot:
    """A taken slot of the engine and the call it is used for; both are given back together, once."""

    def __init__(self, slots: Slots, *, keep_alive_s: float | None = None):
        self.call: EngineCall | None = None
        self._slots = slots
        self._keep_alive_s = keep_alive_s
        self._is_left = False

    async def use(self, call: EngineCall) -> None:
        before, self.call = self.call, call
        if before is not None:
            await before.close()

    async def leave(self) -> None:
        if self._is_left:
            return
        self._is_left = True
        try:
            if self.call is not None:
                await self.call.close()
        finally:
            self._slots.release(self._keep_alive_s)


class LocalAnswer:
    """An OpenAI transcript on its way, in whole events."""

    is_fallback = False

    def __init__(self, slot: Slot, transcript: Transcript, condemn: Callable[[], Awaitable[None]]):
        self.status = 200
        self.headers: Sequence[tuple[str, str]] = _EVENTS
        self.length: int | None = None
        self._slot = slot
        self._transcript = transcript
        self._condemn = condemn
        self._splitter = Splitter()
        self._first = b""
        self._is_read = False

    @property
    def is_proven(self) -> bool:
        return self._is_read

    @property
    def why_not(self) -> str | None:
        return None if self._transcript.is_sound else "not-json"

    async def begin(self) -> None:
        """Waits for the first events that callers get.  Raises EngineFailed if the engine then gives up."""
        self._first = await self._next()

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            events = self._first
            while events:
                yield events
                events = await self._next()
            self._is_read = True
        except EngineFailed as e:
            raise OriginCut(e.says) from None
        finally:
            await self.close()

    async def close(self) -> None:
        await self._slot.leave()

    async def _next(self) -> bytes:
        """One or more whole events; nothing after the last."""
        assert self._slot.call is not None
        while not self._transcript.is_done:
            try:
                piece = await self._slot.call.piece()
            except EngineSilent:
                await self._condemn()
                raise
            if not piece:
                raise OriginCut("the engine's answer has no end")
            told = b"".join(self._transcript.told(event) for event in self._splitter.feed(piece))
            if told:
                return told
        return b""


def _engine() -> str:
    """The engine that answers, with its version; found without importing it, which only its own process does."""
    try:
        return f"xllamacpp/{metadata.version('xllamacpp')}"
    except metadata.PackageNotFoundError:
        return "xllamacpp"
