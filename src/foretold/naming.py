"""From what is asked, by whom and on which route, to the key of its answer (rules K1 to K3, N1)."""

from __future__ import annotations

from msgspec.structs import replace

from foretold.contract.controls import Controls
from foretold.contract.key import key_of
from foretold.contract.query import Query, keyed_headers
from foretold.contract.status import may_answer_304
from foretold.memo import Head, Named
from foretold.policy import detail_of
from foretold.ports import Asked
from foretold.prepared import Batch, Prepared
from foretold.routes import Route, Routes
from foretold.scope import Scope

# More routes than that one head is rarely sent to.
_MOST_COUNTINGS = 16


def named(head: Head, asked: Asked, controls: Controls, route: Route, scope: Scope) -> Named:
    """The name of a query that has an input; `controls` are those of its head and body together."""
    namespaces = scope.namespaces(
        head.tenant, controls.children, controls.ignored, shared_route=route.name if route.shared else None
    )
    query = Query(
        namespace=namespaces.own,
        operation=asked.operation,
        model=route.keyed_model(asked.model),
        revision=route.keyed_revision,
        sample=controls.sample or 0,
        query=asked.query,
        headers=_counting(head, asked.operation, route),
        form=asked.form,
        input=asked.input or "",
    )
    is_safe = may_answer_304(asked.method)
    return Named(
        key=key_of(query),
        query=query,
        namespaces=namespaces,
        route=route,
        controls=controls,
        method=asked.method,
        is_safe=is_safe,
        streamed=asked.streamed,
        usage=asked.usage,
        if_none_match=head.if_none_match,
        place=(asked.streamed, asked.usage, is_safe, detail_of(controls, revision=query.revision), asked.projection),
    )


def anew(prepared: Prepared, routes: Routes, scope: Scope) -> Prepared:
    """The same query by the routes there are now: with another revision of its model it has another key (rule K9)."""
    head, asked, permit = prepared.head, prepared.asked, prepared.permit
    route = routes.match(asked)
    if prepared.batch is not None:
        batch = Batch(each_named(head, asked, prepared.batch.nameds[0].controls, route, scope))
        return prepared._replace(route=route, status=batch.status(permit.forwarded), batch=batch)
    if prepared.named is None:
        return prepared._replace(route=route)
    again = named(head, asked, prepared.named.controls, route, scope)
    status = again.status(permit.forwarded)
    return prepared._replace(route=route, status=status, named=again, found=None, spare=None)


def each_named(head: Head, asked: Asked, controls: Controls, route: Route, scope: Scope) -> tuple[Named, ...]:
    """The names of the queries that one request asks, in its order: they differ in their input alone."""
    first = named(head, replace(asked, input=asked.inputs[0]), controls, route, scope)
    of_input = {asked.inputs[0]: first}
    for digest in asked.inputs:
        if digest not in of_input:
            query = replace(first.query, input=digest)
            of_input[digest] = replace(first, key=key_of(query), query=query)
    return tuple(of_input[digest] for digest in asked.inputs)


def _counting(head: Head, operation: str, route: Route) -> tuple[tuple[str, str], ...]:
    """The headers of a head that count on a route; most heads have none."""
    counting = head.counting.get((operation, route))
    if counting is None:
        counting = keyed_headers(operation, head.request.headers, also=route.keyed_headers)
        if len(head.counting) < _MOST_COUNTINGS:
            head.counting[operation, route] = counting
    return counting
