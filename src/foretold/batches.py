"""Several queries asked in one request: each has its own key, record and flight, all together one answer (rule P5).

What is kept is put together from the pieces of its records; what is missing is asked of the origin in one call, whose
answer comes apart into the flights of the single queries (flights/call.py).  So what holds for one query holds for each
of several: who asks meanwhile gets in, what failed rests, what came is kept for whoever asks for it, alone or among
others.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from foretold.answers import ready
from foretold.answers.answer import Hit
from foretold.answers.judging import Unusable, judged, judged_on_failure
from foretold.answers.reshaping import LONGEST_AT_ONCE
from foretold.contract.freshness import Judged, Verdict, may_revalidate_behind
from foretold.contract.status import etag, etag_matches
from foretold.flights.call import ESTIMATED, Call
from foretold.flights.flying import Flying, origin_of
from foretold.flights.forwarding import forwarded
from foretold.memo import Named
from foretold.outcome import How
from foretold.ports import Asked, Generations, Incoming
from foretold.prepared import Batch, Kept, Prepared
from foretold.projections.embedding import Piece, asking, joined, piece_of
from foretold.projections.fold import NotAnAnswer
from foretold.tiers.held import Held
from foretold.tiers.order import Found, Tiers

# Of so many keys at once is a far tier asked.
FAR_AT_ONCE = 16
# What a piece takes beside its own bytes, roughly.
PIECE_BYTES = 900
# A vector that is turned into the other form costs as much as one so many times as long that isn't.
_TURNING = 16


class Batches:
    def __init__(self, tiers: Tiers, generations: Generations, flying: Flying, *, now_ms: Callable[[], int]):
        self._tiers = tiers
        self._generations = generations
        self._flying = flying
        self._now_ms = now_ms

    def near(self, prepared: Prepared, batch: Batch) -> Hit | None:
        """The answer to all, if memory and disk have it and it can be put together at once."""
        if not prepared.permit.may_read:
            return None
        for key in batch.places:
            named = batch.of(key)
            self.judge(batch, named, self._tiers.look_near(key, named.query.namespace, owner=named.namespaces.tenant))
        if batch.missing or _cost(batch) > LONGEST_AT_ONCE:
            return None
        return self._hit(prepared, batch)

    async def found(self, prepared: Prepared, batch: Batch) -> Hit | None:
        """The answer to all, if the far tiers have what the near ones lack, and however long it takes to make."""
        if prepared.permit.may_read and batch.missing and self._tiers.has_far:
            room = asyncio.Semaphore(FAR_AT_ONCE)
            await asyncio.gather(*(self._look_far(batch, key, room) for key in batch.missing))
        if batch.missing:
            return None
        await self.make(batch)
        return self._hit(prepared, batch)

    def judge(self, batch: Batch, named: Named, found: Found | None) -> bool:
        """Puts what was found of a query where it belongs; whether it can answer."""
        if found is None or found.held.is_negative or found.held.shape != "vector":
            return False
        held = found.held
        verdict = judged(held, named, now_ms=self._now_ms(), generations=self._generations.now())
        if not isinstance(verdict, Unusable):
            batch.kept[named.key] = Kept(held, found.tier, verdict)
            return True
        batch.why_not = batch.why_not or verdict
        if verdict.may_stand_in:
            batch.spares[named.key] = Kept(held, found.tier, Judged(Verdict.STALE, 0, 0))
        return False

    def kept_meanwhile(self, batch: Batch, named: Named) -> bool:
        """Whether another process has put a good record into a near tier since we looked."""
        found = self._tiers.look_again(named.key, named.query.namespace, owner=named.namespaces.tenant)
        return self.judge(batch, named, found)

    def standing_in(self, prepared: Prepared, batch: Batch) -> Hit | None:
        """The answer of stale records instead of an origin's failure, if there is one for whatever is missing."""
        now_ms, generations = self._now_ms(), self._generations.now()
        for key in batch.missing:
            spare = batch.spares.get(key)
            verdict = spare and judged_on_failure(spare.held, batch.of(key), now_ms=now_ms, generations=generations)
            if spare is None or verdict is None:
                return None
            batch.kept[key] = spare._replace(judged=verdict)
        return self._hit(prepared, batch, detail="stale-if-error", may_refresh=False)

    async def make(self, batch: Batch) -> None:
        """Makes the pieces of all that is kept ready, off the event loop if that takes long."""
        if _cost(batch) <= LONGEST_AT_ONCE:
            return
        form = form_of(batch)
        wanted = [kept.held for kept in batch.kept.values() if not _has(kept.held, form)]
        made = await asyncio.to_thread(_made, [held.body for held in wanted], form)
        for held, piece in zip(wanted, made, strict=True):
            if piece is not None:
                self._put_beside(held, form, piece)

    def pieces(self, batch: Batch) -> dict[str, Piece]:
        """A piece for each key that is kept; a record that has none is counted as corrupt, and kept no more."""
        form, pieces = form_of(batch), dict[str, Piece]()
        for key, kept in list(batch.kept.items()):
            try:
                pieces[key] = self._piece(kept.held, form)
            except NotAnAnswer:
                self._tiers.corrupt += 1
                del batch.kept[key]
        return pieces

    def _hit(
        self, prepared: Prepared, batch: Batch, *, detail: str | None = None, may_refresh: bool = True
    ) -> Hit | None:
        """The answer of records, if all are there; vectors of two lengths are not of one model, and all asked anew."""
        pieces = self.pieces(batch)
        if batch.missing:
            return None
        try:
            body = joined([pieces[named.key] for named in batch.nameds])
        except NotAnAnswer:
            batch.kept.clear()
            return None
        kept = [batch.kept[named.key] for named in batch.nameds]
        verdict = _together([one.judged for one in kept])
        first, held = batch.nameds[0], kept[0].held
        digest = hashlib.sha256("".join(one.held.digest for one in kept).encode()).hexdigest()
        tag = etag(digest, f"{held.shape}-{first.projection}")
        lines = ready.lines_of_several(
            verdict,
            first,
            tag=tag,
            kind=held.content_type,
            others=_others([one.held for one in kept]),
            detail=detail or first.detail,
        )
        hit = Hit(
            status=200,
            lines=lines + b"content-length: %d\r\n" % len(body),
            body=body,
            how=How.HIT if verdict.verdict is Verdict.FRESH else How.STALE,
            tier=next((one.tier for one in kept if one.tier != self._tiers.memory.name), self._tiers.memory.name),
            operation=first.query.operation,
            model=first.query.model,
            route=first.route.name,
            origin_ms=max(one.held.took_ms for one in kept),
        )
        if first.if_none_match is not None and first.is_safe and etag_matches(first.if_none_match, tag):
            hit.status, hit.lines, hit.body = 304, ready.without_content(lines), b""
        if may_refresh:
            self._refresh(prepared, batch)
        return hit

    def _refresh(self, prepared: Prepared, batch: Batch) -> None:
        """Fetches new answers behind those that are stale, in one call, nobody aboard."""
        due = [
            key
            for key, kept in batch.kept.items()
            if may_revalidate_behind(kept.judged, kept.held.lifetimes) and self._flying.may_refresh(batch.of(key))
        ]
        call = call_of(prepared, batch, asks_others=False)
        for key in due:
            call.keys.append(key)
            ride = self._flying.refresh(
                prepared.head, single(prepared.asked), batch.of(key), take_off=partial(call.part, key)
            )
            ride.flight.left(ride)

    async def _look_far(self, batch: Batch, key: str, room: asyncio.Semaphore) -> None:
        named = batch.of(key)
        async with room:
            found = await self._tiers.look_far(key, named.query.namespace, owner=named.namespaces.tenant)
        self.judge(batch, named, found)

    def _piece(self, held: Held, form: str) -> Piece:
        piece: Piece | None = None if held.pieces is None else held.pieces.get(form)
        if piece is None:
            piece = piece_of(held.body, form)
            self._put_beside(held, form, piece)
        return piece

    def _put_beside(self, held: Held, form: str, piece: Piece) -> None:
        if held.pieces is None:
            held.pieces = {}
        if held.pieces.setdefault(form, piece) is piece:
            self._tiers.grown(held, PIECE_BYTES + piece.own_bytes)


def single(asked: Asked) -> Asked:
    """What one query of several asks, as its flight remembers it."""
    return replace(asked, body=b"", inputs=())


def call_of(prepared: Prepared, batch: Batch, *, asks_others: bool) -> Call:
    """One run of a route's origin for whichever of these queries are put into it."""
    asked, route = prepared.asked, prepared.route

    async def fetched(keys: Sequence[str]) -> tuple[Incoming, Sequence[int]]:
        places = [batch.places[key] for key in keys]
        body, weights = asking(asked.body, places)
        if places == list(range(len(batch.nameds))):
            body = asked.body
        beside = forwarded(prepared.head, asked, route)
        origin = origin_of(route, asks_others=asks_others)
        return await origin.fetch(replace(asked, body=body, inputs=()), beside), weights

    return Call(fetched)


def form_of(batch: Batch) -> str:
    return batch.nameds[0].projection or ""


def _together(judged: Sequence[Judged]) -> Judged:
    """As old as the oldest, and good for as long as the first that ends."""
    oldest, first = max(judged, key=lambda one: one.age_s), min(judged, key=lambda one: one.ttl_s)
    return Judged(first.verdict, oldest.age_s, first.ttl_s)


def _others(held: Sequence[Held]) -> list[tuple[str, str]]:
    """The kept headers of the first, but for its type; and that usage is estimated, if that of any is."""
    told = [field for field in held[0].headers if field[0] not in ("content-type", ESTIMATED[0])]
    return [*told, ESTIMATED] if any(ESTIMATED in one.headers for one in held) else told


def _cost(batch: Batch) -> int:
    """How long it takes to make the pieces that don't lie ready, in bytes that are read."""
    form = form_of(batch)
    wanted = (kept.held for kept in batch.kept.values() if not _has(kept.held, form))
    return sum(len(held.body) * (1 if _is_in(held.body, form) else _TURNING) for held in wanted)


def _has(held: Held, form: str) -> bool:
    return held.pieces is not None and form in held.pieces


def _is_in(body: bytes, form: str) -> bool:
    """Whether an embedding is in a form, at a glance: what this gets wrong costs time alone."""
    return (b'"embedding":[' in body or b'"embedding": [' in body) == (form == "float")


def _made(bodies: Sequence[bytes], form: str) -> list[Piece | None]:
    made: list[Piece | None] = []
    for body in bodies:
        try:
            made.append(piece_of(body, form))
        except NotAnAnswer:
            made.append(None)
    return made
