"""From what is asked, by whom and on which route, to the key of its answer (rules K1 to K3, N1)."""

from __future__ import annotations

from foretold.contract.controls import Controls
from foretold.contract.key import key_of
from foretold.contract.query import Query, keyed_headers
from foretold.contract.status import may_answer_304
from foretold.memo import Head, Named
from foretold.policy import ignored_alias
from foretold.ports import Asked
from foretold.routes import Route
from foretold.scope import Scope


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
        headers=keyed_headers(asked.operation, head.request.headers, also=route.keyed_headers),
        form=asked.form,
        input=asked.input or "",
    )
    if_none_match = next((value for name, value in head.request.headers if name == "if-none-match"), None)
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
        if_none_match=if_none_match,
        place=(asked.streamed, asked.usage, is_safe, ignored_alias(controls)),
    )
