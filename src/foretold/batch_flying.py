"""What is missing of several queries asked in one request, fetched in one call and put together (rules P5, L1)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec.structs import replace as changed

from foretold.answers import deliver
from foretold.answers.answer import Answer, Hit, raw
from foretold.answers.reshaping import LONGEST_AT_ONCE
from foretold.batches import Batches, call_of, form_of, single
from foretold.contract.manners import may_fall_back
from foretold.contract.status import CacheStatus
from foretold.errors import LeaderLost, NotShared, OriginError
from foretold.flights.call import ESTIMATED, Call, Came
from foretold.flights.flight import Ride
from foretold.flights.flying import Flying
from foretold.flights.lease import ALONE
from foretold.memo import Named
from foretold.outcome import How, Outcome
from foretold.passing import passed
from foretold.prepared import Batch, Prepared
from foretold.projections.embedding import in_form, joined, piece_of
from foretold.projections.fold import NotAnAnswer

# How often a query takes another turn when the process that flew for it is gone, before it flies by itself.
MOST_TURNS = 4


@dataclass
class Journey:
    """What came of the queries that were missing: of each the answer to it, and what is to be told of all.

    `call` is the first that was made for this request, `own` are the keys that were asked by any; `not_kept` is the
    first reason why what came isn't kept, `refused` what another's call brought that was refused for one of these.
    """

    call: Call
    came: dict[str, Came] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    is_alone: bool = False
    is_echo: bool = False
    not_kept: str | None = None
    refused: Came | None = None


class BatchFlying:
    def __init__(self, batches: Batches, flying: Flying, *, is_first_sight: Callable[[Named], bool]):
        self._batches = batches
        self._flying = flying
        self._is_first_sight = is_first_sight

    async def answer(self, prepared: Prepared, batch: Batch, outcome: Outcome, *, may_mix: bool) -> Answer | Hit:
        """The answer of an origin, or of stale records that stand in for it.

        Unless it `may_mix`, all is asked of the origin, whatever is kept.  Raises ForetoldError.
        """
        if not may_mix or not prepared.permit.may_read:
            batch.kept.clear()
            batch.spares.clear()
        # Where records may stand in, they do so before the route's other origins are asked.
        asks_others = prepared.route.first is None or any(key not in batch.spares for key in batch.missing)
        journey = Journey(call_of(prepared, batch, asks_others=asks_others))
        try:
            await self._fly(prepared, batch, journey, asks_others=asks_others, may_join=may_mix)
        except OriginError:
            hit = self._batches.standing_in(prepared, batch)
            if hit is None:
                raise
            return hit
        failed = next((came for came in journey.came.values() if came.status != 200), None)
        if failed is not None and may_fall_back(failure=None, status=failed.status, once=False):
            hit = self._batches.standing_in(prepared, batch)
            if hit is not None:
                return hit
        told = failed or journey.refused or self._untouched(batch, journey)
        if told is None:
            told = await self._put_together(batch, journey)
        if isinstance(told, Came):
            return _answer(told, batch, journey, prepared.status, outcome)
        # What can't be put together is asked for as it came, and goes through.
        status = CacheStatus(forwarded="bypass", detail=told)
        return await passed(prepared._replace(status=status), outcome)

    async def _fly(
        self, prepared: Prepared, batch: Batch, journey: Journey, *, asks_others: bool, may_join: bool
    ) -> None:
        """Raises OriginError as a flight ended; none is left with us aboard."""
        call, wanted = journey.call, batch.missing
        may_join = may_join and prepared.permit.may_join
        for turns_left in range(MOST_TURNS, 0, -1):
            journey.is_alone = journey.is_alone or turns_left == 1
            rides: dict[str, Ride] = {}
            try:
                for key in wanted:
                    ride = self._board(
                        prepared, batch, batch.of(key), journey, call=call, asks_others=asks_others, may_join=may_join
                    )
                    if ride is not None:
                        rides[key] = ride
                wanted = await _landed(rides, batch, journey)
            finally:
                for ride in rides.values():
                    await ride.leave()
            if call.why_not_shared is not None or not journey.call.keys:
                journey.call = call
            if not wanted or call.why_not_shared is not None or journey.refused is not None:
                return
            call = call_of(prepared, batch, asks_others=asks_others)
        raise OriginError("the answers to some inputs were lost again and again: ask once more")

    def _board(
        self,
        prepared: Prepared,
        batch: Batch,
        named: Named,
        journey: Journey,
        *,
        call: Call,
        asks_others: bool,
        may_join: bool,
    ) -> Ride | None:
        """A seat in a flight that is in the air, or in a new one of which `call` is the origin; None if it is kept."""
        may_join = may_join and not journey.is_alone
        ride = self._flying.join(named, asks_others=asks_others) if may_join else None
        if ride is not None:
            journey.is_echo |= ride.is_echo
            return ride
        turn = ALONE if journey.is_alone else self._flying.turn(named, asks_others=asks_others)
        if turn.is_taken and may_join and self._batches.kept_meanwhile(batch, named):
            turn.give_back()
            return None
        ride, follows = self._flying.start(
            prepared.head,
            single(prepared.asked),
            named,
            asks_others=asks_others,
            turn=turn if may_join or turn.is_taken else ALONE,
            is_first_sight=self._is_first_sight(named),
            take_off=partial(call.part, named.key),
        )
        if not follows:
            call.keys.append(named.key)
            journey.own.append(named.key)
        return ride

    def _untouched(self, batch: Batch, journey: Journey) -> Came | str | None:
        """A call's answer as it is, where it is the answer to just this request, or an error to a part of it.

        None where answers are to be put together, a word where nothing can be told but by asking anew.
        """
        asked = [named.key for named in batch.nameds]
        if journey.call.why_not_shared is None:
            (call, *others) = {came.of for came in journey.came.values()} or {None}
            return call.came if call is not None and not others and call.keys == asked else None
        call = journey.call
        is_all = call.keys == asked
        if call.came is None or not (is_all or call.came.status != 200):
            return f"not-kept-{call.why_not_shared}"
        journey.not_kept = call.why_not_shared
        return call.came

    async def _put_together(self, batch: Batch, journey: Journey) -> Came | str:
        """The answer to all of what is kept and what came; or a word that says why there is none."""
        if len({came.is_fallback for came in journey.came.values()} | ({False} if batch.kept else set())) > 1:
            return "fallback"  # vectors of two models are nothing to compare
        form, bodies = form_of(batch), {key: came.body for key, came in journey.came.items()}
        await self._batches.make(batch)
        pieces = self._batches.pieces(batch)
        try:
            if sum(map(len, bodies.values())) <= LONGEST_AT_ONCE // 16:
                pieces |= {key: piece_of(body, form) for key, body in bodies.items()}
            else:
                pieces |= await asyncio.to_thread(lambda: {key: piece_of(body, form) for key, body in bodies.items()})
            body = joined([pieces[named.key] for named in batch.nameds])
        except (NotAnAnswer, KeyError):
            return "not-one-answer"
        any_came = next(iter(journey.came.values()))
        headers = [field for field in any_came.headers if field != ESTIMATED]
        if _is_estimated(batch, journey) and b'"usage"' in body:
            headers.append(ESTIMATED)
        return replace(any_came, headers=headers, body=body)


async def _landed(rides: dict[str, Ride], batch: Batch, journey: Journey) -> list[str]:
    """Puts what came into the journey; the keys whose flights are lost."""
    lost = []
    for key, ride in rides.items():
        try:
            incoming = await ride.head()
            body = await ride.whole()
        except LeaderLost as error:
            journey.is_alone = journey.is_alone or error.alone
            if isinstance(error, NotShared):
                journey.refused = journey.refused or _refused(error.of, batch)
            lost.append(key)
            continue
        of = incoming.of if isinstance(incoming, Came) else None
        journey.came[key] = Came(
            incoming.status, incoming.headers, body, incoming.is_fallback, is_proven=True, why_not=None, of=of
        )
        journey.not_kept = journey.not_kept or ride.flight.why_not_kept
    return lost


def _refused(call: Any, batch: Batch) -> Came | None:
    """What a call brought that was refused, if whatever it asked is asked here too."""
    if not isinstance(call, Call) or call.came is None or call.came.status == 200:
        return None
    return call.came if all(key in batch.places for key in call.keys) else None


def _is_estimated(batch: Batch, journey: Journey) -> bool:
    """Whether some of the usage told is a share; shares of one call that are all told once add up to what it told."""
    times = Counter(named.key for named in batch.nameds)

    def is_told_whole(call: Call | None) -> bool:
        return call is not None and all(
            times[key] == 1 and key in journey.came and journey.came[key].of is call for key in call.keys
        )

    whole = {call for call in {came.of for came in journey.came.values()} if is_told_whole(call)}
    return any(came.is_estimated and came.of not in whole for came in journey.came.values()) or any(
        ESTIMATED in kept.held.headers for kept in batch.kept.values()
    )


def _answer(told: Came, batch: Batch, journey: Journey, status: CacheStatus, outcome: Outcome) -> Answer:
    collapsed = not journey.own
    outcome.how = How.COLLAPSED if collapsed else How.MISS
    outcome.status, outcome.stored = told.status, told.status == 200 and journey.not_kept is None
    if batch.kept:
        status = changed(status, forwarded="partial", detail=batch.told)
    elif batch.why_not is not None:
        status = batch.why_not.told(status)
    if collapsed:
        status = changed(status, collapsed=True, detail="backoff" if journey.is_echo else status.detail)
    elif journey.not_kept is not None and told.status == 200:
        word = journey.not_kept if journey.not_kept == "first-sight" else f"not-kept-{journey.not_kept}"
        status = changed(status, detail=status.detail or word)
    headers = deliver.miss_headers(told, status, outcome)
    body = told.body
    if told.status == 200:
        with contextlib.suppress(NotAnAnswer):  # what is none of its dialect goes out as it came
            body = in_form(told.body, form_of(batch))
    return Answer(told.status, raw([*headers, ("content-length", str(len(body)))]), outcome, body=body)
