"""What the operations of vectors about keys do here: from a vector's `in` to its `out`, errors raised as they come."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from foretold.contract import aliases, canonical, controls, inputs, key, namespace, query
from tests.contract.values import SECRET, bytes_of, pairs_of

Given = dict[str, Any]


def canonical_text(given: Given) -> bytes:
    return canonical.canonical(canonical.read(bytes_of(given["text"])))


def body_of(given: Given) -> Any:
    return canonical.read(bytes_of(given["body"]))


def query_key(given: Given) -> str:
    members = {**given["query"], "headers": tuple(pairs_of(given["query"].get("headers", [])))}
    return key.key_of(query.Query(**members))


def multipart_digest(given: Given) -> str:
    return inputs.multipart_input([(name, kind, bytes_of(content)) for name, kind, content in given["parts"]])


def tensor_digest(given: Given) -> str:
    tensors = [{**tensor, "content": bytes_of(tensor["content"])} for tensor in given["inputs"]]
    return inputs.tensor_input(tensors, given["outputs"], given.get("parameters", {}))


def presented(given: Given) -> Given:
    found = namespace.presented(pairs_of(given["headers"]))
    return {**dataclasses.asdict(found), "text": found.text}


def tenant_of(given: Given) -> str:
    """`tenants` maps API keys to tenants' names, or is null or absent where none are set."""
    tenants = given.get("tenants")
    return namespace.tenant_of(
        namespace.presented(pairs_of(given.get("headers", []))),
        tenants=None if tenants is None else {namespace.api_key_hash(k): name for k, name in tenants.items()},
        shared_route=given.get("shared_route"),
    )


def keys_of(request: Given) -> list[str]:
    """The keys of a request, one for each of its queries, found the way that rules K1 to C3 lead."""
    headers = pairs_of(request.get("headers", []))
    in_query, text = controls.split_query(request.get("query", ""))
    said = aliases.read_controls(headers, in_query)
    operation, form = request["operation"], request.get("form", "json")
    value = body_of(request) if form == "json" else None
    if operation in inputs.OPENAI_SHAPED and isinstance(value, dict):
        said = said.stricter(aliases.body_controls(value.get("cache")))
    sent = value.get("model", "") if isinstance(value, dict) else ""
    return [
        key.key_of(
            query.Query(
                namespace=narrowed(namespace.tenant_namespace(SECRET, tenant_of(request)), said),
                operation=operation,
                model=request.get("model", sent),
                revision=request.get("revision", ""),
                input=digest,
                form=form,
                sample=request.get("sample", said.sample or 0),
                query=text,
                headers=query.keyed_headers(operation, headers),
            )
        )
        for digest in digests_of(request, form, value, said)
    ]


def narrowed(own: str, said: controls.Controls) -> str:
    labels = [*said.children, *([namespace.ignoring_label(said.ignored)] if said.ignored else [])]
    for label in labels:
        own = namespace.child_namespace(SECRET, own, label)
    return own


def digests_of(request: Given, form: str, value: Any, said: controls.Controls) -> list[str]:
    operation = request["operation"]
    match form:
        case "json" if operation == "embedding":
            return [inputs.json_input(operation, one, ignored=said.ignored) for one in inputs.embedding_inputs(value)]
        case "json":
            return [inputs.json_input(operation, value, ignored=said.ignored)]
        case "multipart":
            return [multipart_digest(request)]
        case "tensor":
            return [tensor_digest(request)]
    return [inputs.bytes_input(bytes_of(request["body"]))]


OPERATIONS: dict[str, Callable[[Given], Any]] = {
    "canonical": canonical_text,
    "canonical_sha256": lambda g: inputs.digest(canonical_text(g)),
    "key_of": query_key,
    "record_name": lambda g: key.record_name(g["namespace"], g["key"]),
    "keyed_headers": lambda g: query.keyed_headers(g["operation"], pairs_of(g["headers"]), also=g.get("also", ())),
    "keyed": lambda g: inputs.keyed(g["operation"], body_of(g), ignored=g.get("ignored", ())),
    "json_input": lambda g: inputs.json_input(g["operation"], body_of(g), ignored=g.get("ignored", ())),
    "ignored_names": lambda g: inputs.ignored_names(g["names"]),
    "bytes_input": lambda g: inputs.bytes_input(bytes_of(g["body"])),
    "multipart_input": multipart_digest,
    "embedding_inputs": lambda g: inputs.embedding_inputs(body_of(g)),
    "tensor_input": tensor_digest,
    "must_pass": lambda g: inputs.must_pass(g["operation"], body_of(g)),
    "same_key": lambda g: keys_of(g["a"]) == keys_of(g["b"]),
    "presented": presented,
    "tenant_of": tenant_of,
    "tenant_namespace": lambda g: namespace.tenant_namespace(SECRET, g["tenant"]),
    "child_namespace": lambda g: namespace.child_namespace(SECRET, g["parent"], g["label"]),
    "ignoring_label": lambda g: namespace.ignoring_label(g["names"]),
    "api_key_hash": lambda g: namespace.api_key_hash(g["api_key"]),
}
