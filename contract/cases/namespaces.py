"""Whose answers these are (rules N1, N2)."""

from typing import Any

import reference

from cases.writing import Vector, fails, gives


def _presents(
    name: str, headers: list[list[str]], *, gateway: str = "", other: str = "", header: str = "", text: str = ""
) -> Vector:
    out = {"gateway": gateway, "other": other, "other_header": header, "text": text}
    return gives(name, "N2", "presented", {"headers": headers}, out)


def _two(name: str, *headers: list[str]) -> Vector:
    return fails(name, "N2", "presented", {"headers": list(headers)}, "two_credentials")


_CREDENTIALS = [
    _presents("no header, no credential", []),
    _presents("other headers hold no credential", [["cookie", "a"], ["x-portkey-api-key", "b"]]),
    _presents(
        "Bearer is not part of a credential",
        [["Authorization", "Bearer sk-1"]],
        other="sk-1",
        header="authorization",
        text="sk-1",
    ),
    _presents(
        "bearer may be written in any case",
        [["authorization", "bEARER sk-1"]],
        other="sk-1",
        header="authorization",
        text="sk-1",
    ),
    _presents(
        "spaces around a credential don't count",
        [["authorization", "  Bearer   sk-1  "]],
        other="sk-1",
        header="authorization",
        text="sk-1",
    ),
    _presents(
        "Bearer is cut from every credential header",
        [["x-api-key", "Bearer sk-1"]],
        other="sk-1",
        header="x-api-key",
        text="sk-1",
    ),
    _presents(
        "another scheme is part of the credential",
        [["authorization", "Basic YTpi"]],
        other="Basic YTpi",
        header="authorization",
        text="Basic YTpi",
    ),
    _presents(
        "a credential may be given without a scheme",
        [["authorization", "sk-1"]],
        other="sk-1",
        header="authorization",
        text="sk-1",
    ),
    _presents(
        "a word that only starts as Bearer is no scheme",
        [["authorization", "Bearers sk-1"]],
        other="Bearers sk-1",
        header="authorization",
        text="Bearers sk-1",
    ),
    _presents("x-api-key holds a credential", [["X-Api-Key", "k"]], other="k", header="x-api-key", text="k"),
    _presents("api-key holds a credential", [["api-key", "k"]], other="k", header="api-key", text="k"),
    _presents("a credential's capitals count", [["api-key", "K"]], other="K", header="api-key", text="K"),
    _presents("an empty credential is none", [["authorization", ""], ["x-api-key", " "]]),
    _presents("Bearer without more is none", [["authorization", "Bearer "]]),
    _presents(
        "an empty credential beside another is none",
        [["authorization", "Bearer"], ["x-api-key", "k"]],
        other="k",
        header="x-api-key",
        text="k",
    ),
    _presents(
        "one credential in two headers is one",
        [["authorization", "Bearer k"], ["x-api-key", "k"]],
        other="k",
        header="authorization",
        text="k",
    ),
    _presents(
        "the first header is the first of the rule, not of the request",
        [["api-key", "k"], ["x-api-key", "k"], ["authorization", "k"]],
        other="k",
        header="authorization",
        text="k",
    ),
    _presents(
        "x-api-key goes before api-key", [["api-key", "k"], ["x-api-key", "k"]], other="k", header="x-api-key", text="k"
    ),
    _presents("cf-aig-authorization is an API key", [["CF-AIG-Authorization", "Bearer g"]], gateway="g", text="g"),
    _presents(
        "one credential may stand beside cf-aig-authorization",
        [["cf-aig-authorization", "Bearer g"], ["authorization", "Bearer k"]],
        gateway="g",
        other="k",
        header="authorization",
        text="g\nk",
    ),
    _presents(
        "the credential beside cf-aig-authorization may be the same",
        [["cf-aig-authorization", "g"], ["authorization", "g"]],
        gateway="g",
        other="g",
        header="authorization",
        text="g\ng",
    ),
    _two("two different credentials are refused", ["authorization", "Bearer a"], ["x-api-key", "b"]),
    _two(
        "two different credentials in one header are refused",
        ["authorization", "Bearer a"],
        ["authorization", "Bearer b"],
    ),
    _two("two that differ in their scheme are refused", ["authorization", "Basic a"], ["x-api-key", "a"]),
    _two(
        "two different ones beside cf-aig-authorization are refused",
        ["cf-aig-authorization", "g"],
        ["authorization", "a"],
        ["api-key", "b"],
    ),
    _two("two different API keys are refused", ["cf-aig-authorization", "g"], ["cf-aig-authorization", "h"]),
]

_TWO_TENANTS = {"sk-a": "acme", "sk-b": "beta"}


def _tenant(name: str, headers: list[list[str]], out: str, *, tenants: Any = None, **rest: Any) -> Vector:
    return gives(name, "N1", "tenant_of", {"headers": headers, "tenants": tenants, **rest}, out)


def _nobody(name: str, headers: list[list[str]], **rest: Any) -> Vector:
    return fails(name, "N1", "tenant_of", {"headers": headers, "tenants": _TWO_TENANTS, **rest}, "bad_credential")


_TENANTS = [
    _tenant("without API keys and credentials the tenant is local", [], "local:"),
    _tenant("without API keys a credential is the tenant", [["authorization", "Bearer k"]], "credential:k"),
    _tenant(
        "without API keys both credentials are the tenant",
        [["cf-aig-authorization", "g"], ["x-api-key", "k"]],
        "credential:g\nk",
    ),
    _tenant("an API key's tenant has a name", [["authorization", "Bearer sk-a"]], "tenant:acme", tenants=_TWO_TENANTS),
    _tenant("an API key may come as x-api-key", [["x-api-key", "sk-b"]], "tenant:beta", tenants=_TWO_TENANTS),
    _tenant(
        "an API key may come as cf-aig-authorization",
        [["cf-aig-authorization", "Bearer sk-a"]],
        "tenant:acme",
        tenants=_TWO_TENANTS,
    ),
    _tenant(
        "a credential beside an API key is part of the tenant",
        [["cf-aig-authorization", "sk-a"], ["authorization", "Bearer k"]],
        "tenant:acme\nk",
        tenants=_TWO_TENANTS,
    ),
    _tenant(
        "on a shared route all are one tenant",
        [["authorization", "Bearer sk-a"]],
        "shared:docs",
        tenants=_TWO_TENANTS,
        shared_route="docs",
    ),
    _tenant("a shared route needs no credential where no API keys are set", [], "shared:docs", shared_route="docs"),
    _tenant("a shared route doesn't look at credentials", [["x-api-key", "k"]], "shared:docs", shared_route="docs"),
    _nobody("where API keys are set nobody comes in without one", []),
    _nobody("where API keys are set a wrong one is refused", [["authorization", "Bearer sk-c"]]),
    _nobody(
        "a wrong cf-aig-authorization is refused though another header is right",
        [["cf-aig-authorization", "x"], ["authorization", "Bearer sk-a"]],
    ),
    _nobody("a shared route asks for an API key too", [], shared_route="docs"),
    fails(
        "where no API key is left nobody comes in",
        "N1",
        "tenant_of",
        {"headers": [["x-api-key", "a"]], "tenants": {}},
        "bad_credential",
    ),
]

_LOCAL = reference.tenant_namespace("local:")


def _namespace(name: str, tenant: str) -> Vector:
    return gives(name, "N1", "tenant_namespace", {"tenant": tenant}, reference.tenant_namespace(tenant))


def _child(name: str, parent: str, label: str, rule: str = "N1") -> Vector:
    return gives(
        name, rule, "child_namespace", {"parent": parent, "label": label}, reference.child_namespace(parent, label)
    )


_NAMESPACES = [
    _namespace("the namespace of a local caller", "local:"),
    _namespace("the namespace of a tenant", "tenant:acme"),
    _namespace("the namespace of a credential", "credential:sk-1"),
    _namespace("the namespace of a tenant and the credential beside it", "tenant:acme\nk"),
    _namespace("the namespace of a shared route", "shared:docs"),
    _namespace("the namespace of a tenant of another script", "tenant:Москва"),
    _child("a child namespace hangs from its parent", _LOCAL, "a"),
    _child("a child of a child hangs from the child", reference.child_namespace(_LOCAL, "a"), "b"),
    _child("a label of another script", _LOCAL, "日本 🙂"),
    _child("a label may be a tenant's text without being that tenant", _LOCAL, "local:"),
    _child("the namespace of those who ignore members", _LOCAL, "ignore\nseed\ntop_p", "C3"),
    gives(
        "ignored names make a label, sorted",
        "C3",
        "ignoring_label",
        {"names": ["top_p", "seed"]},
        "ignore\nseed\ntop_p",
    ),
    gives("an ignored name counts once", "C3", "ignoring_label", {"names": ["seed", "seed"]}, "ignore\nseed"),
    gives(
        "an API key is looked up by its digest", "N1", "api_key_hash", {"api_key": "sk-a"}, reference.sha256(b"sk-a")
    ),
    gives(
        "the digest of the empty API key",
        "N1",
        "api_key_hash",
        {"api_key": ""},
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    *(
        gives(name, "C2", "is_label", {"value": value}, out)
        for name, value, out in [
            ("a word is a label", "a", True),
            ("a label may hold spaces and signs", "a b/c:d=e", True),
            ("a label of 256 characters is one", "x" * 256, True),
            ("a label of 256 emoji is one, since code points are counted", "🙂" * 256, True),
            ("a label of 257 characters is none", "x" * 257, False),
            ("an empty label is none", "", False),
            ("a label with a line feed is none", "ignore\nseed", False),
            ("a label with a zero byte is none", "a\0", False),
            ("a label with DEL is none", "a\x7f", False),
            ("a label with a tab inside is none", "a\tb", False),
        ]
    ),
]

FILES = {"credentials": _CREDENTIALS, "namespaces": _TENANTS + _NAMESPACES}
