"""An answer on its way in the other shape than it came in (rules P1 and P3): all of it, or an error."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import NamedTuple

from foretold.contract.events import DONE, split
from foretold.errors import OriginCut, OriginError
from foretold.projections import shapes, verbatim
from foretold.projections.fold import NotAnAnswer

LONGEST_AT_ONCE = 256 * 1024
"""Bytes of the longest answer that is read or reshaped on the event loop; longer ones would hold up all others."""


class Reshaped(NamedTuple):
    """`kind` is the content type, None where the answer goes out as it came."""

    status: int
    kind: str | None
    body: bytes


class Shapes:
    """The other shapes of one answer, each made once for all who want it."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bool, str | None], Reshaped | asyncio.Task[Reshaped]] = {}

    async def of(self, body: bytes, operation: str, *, wanted: str, usage: bool) -> Reshaped:
        """As `reshaped`; the body is the same each time."""
        return await self._of(
            (wanted, usage, None), body, lambda: reshaped(body, operation, wanted=wanted, usage=usage)
        )

    async def retold(self, body: bytes, projection: str, *, status: int, came: str, wanted: str) -> Reshaped:
        """As the function of this name; status and body are the same each time."""
        place = (wanted, True, projection)
        return await self._of(place, body, lambda: retold(body, projection, status=status, came=came, wanted=wanted))

    async def _of(self, place: tuple[str, bool, str | None], body: bytes, make: Callable[[], Reshaped]) -> Reshaped:
        made = self._made.get(place)
        if made is None and len(body) <= LONGEST_AT_ONCE:
            made = self._made[place] = make()
        elif made is None:
            made = asyncio.create_task(asyncio.to_thread(make))
            # Whoever waits may leave; what went wrong was then told to nobody, and needn't be.
            made.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._made[place] = made
        return await asyncio.shield(made) if isinstance(made, asyncio.Task) else made


def reshaped(body: bytes, operation: str, *, wanted: str, usage: bool) -> Reshaped:
    """A whole answer as a transcript, or a transcript as a whole answer.

    An error that was told with 200 stays what the origin said: as it came if it came whole, as the body of a 502 if it
    broke off a stream.  Raises OriginCut for half an answer, OriginError for what is none of its dialect.
    """
    return _as_transcript(body, operation, usage=usage) if wanted == "events" else _as_whole(body, operation)


def retold(body: bytes, projection: str, *, status: int, came: str, wanted: str) -> Reshaped:
    """A chat's answer told in another dialect, whatever it is: errors too, and then with a status that says so.

    Or an answer in another form, of which errors have none.  Raises as `reshaped` does.
    """
    if projection in shapes.FORM:
        return _in_form(body, projection) if status == 200 else Reshaped(status, None, body)
    told = Reshaped(status, None, body)
    if status == 200 and came != wanted:
        told = reshaped(body, "chat", wanted=wanted, usage=True)
    if told.status != 200:
        return Reshaped(told.status, shapes.JSON, shapes.RETOLD[projection].refused(told.status, told.body))
    if (came == "whole" or wanted == "whole") and _tells_an_error(told.body):
        return Reshaped(502, shapes.JSON, shapes.RETOLD[projection].refused(502, told.body))
    try:
        made = shapes.retold(projection, told.body, shape=wanted)
    except (ValueError, KeyError, TypeError):
        raise _no_answer() from None
    return Reshaped(200, shapes.EVENT_STREAM if wanted == "events" else shapes.JSON, made)


def _in_form(body: bytes, form: str) -> Reshaped:
    """An answer in one form; what can have none goes out as it came."""
    try:
        made = shapes.FORM[form](body)
    except NotAnAnswer:
        return Reshaped(200, None, body)
    return Reshaped(200, None if made is body else shapes.JSON, made)


def _tells_an_error(body: bytes) -> bool:
    answer = verbatim.object_in(body) if b'"error"' in body else None
    return answer is not None and answer.get("error") is not None


def _as_transcript(body: bytes, operation: str, *, usage: bool) -> Reshaped:
    answer = verbatim.object_in(body)
    if answer is not None and answer.get("error") is not None:
        return Reshaped(200, None, body)
    try:
        told = shapes.events(operation, body, shape="whole", usage=usage)
    except (ValueError, KeyError, TypeError):
        raise _no_answer() from None
    return Reshaped(200, shapes.EVENT_STREAM, told)


def _as_whole(body: bytes, operation: str) -> Reshaped:
    try:
        events, _ = split(body)
    except UnicodeDecodeError:
        raise _no_answer() from None
    # Whoever streams reads up to the first [DONE]; what an origin says behind it is no part of the answer.
    told = list(itertools.takewhile(lambda event: event.data != DONE, events))
    is_all = len(told) < len(events)
    try:
        answer = shapes.WHOLE_OF[operation](told)
    except (NotAnAnswer, KeyError, TypeError):
        raise (_no_answer() if is_all else _half()) from None
    if answer.get("error") is not None:
        return Reshaped(502, shapes.JSON, verbatim.written({"error": answer["error"]}))
    if not is_all:
        raise _half()
    return Reshaped(200, shapes.JSON, verbatim.written(answer))


def _half() -> OriginError:
    return OriginCut("the origin's stream ended without its last event, [DONE]: what came is not all of the answer")


def _no_answer() -> OriginError:
    return OriginError("the origin's answer is not one of its dialect: it can't be given in the shape asked for")
