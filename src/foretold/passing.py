"""Queries that go through: to their origin and back, past everything that is kept."""

from __future__ import annotations

from msgspec.structs import replace

from foretold.answers import deliver
from foretold.answers.answer import Answer, Hit
from foretold.errors import NotKept
from foretold.flights.forwarding import forwarded
from foretold.outcome import How, Outcome
from foretold.prepared import Prepared


async def passed(prepared: Prepared, outcome: Outcome) -> Answer:
    """The origin's answer as it is.  Raises what kept it from coming."""
    route, asked, status = prepared.route, prepared.asked, prepared.status
    outcome.how, outcome.detail = How.PASS, status.detail
    incoming = await route.origin.fetch(asked, forwarded(prepared.head, asked, route))
    return await deliver.passed(incoming, asked, outcome, status=status)


def not_kept(outcome: Outcome) -> NotKept:
    """What a query hears that asks for kept answers only, where there is none."""
    outcome.how, outcome.detail = How.MISS, "only-if-cached"
    return NotKept("only-if-cached, and no usable answer is kept for this query")


def observed(prepared: Prepared, hit: Hit | None, outcome: Outcome, *, refreshes: bool) -> Prepared:
    """The query as it goes to its origin, though it would have been a hit, or else have joined a flight.

    What comes is not kept, so that the record there is stays as old as it would be; unless serving would now have
    fetched a new one, which then `refreshes` it.
    """
    outcome.would_be = How.COLLAPSED if hit is None else hit.how
    outcome.would_save_ms = 0 if hit is None else hit.origin_ms
    status = replace(prepared.status, forwarded="bypass", detail=f"would-be-{outcome.would_be.value}")
    return prepared._replace(named=prepared.named if refreshes else None, status=status, refreshes=refreshes)
