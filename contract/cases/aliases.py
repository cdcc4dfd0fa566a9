"""Caching controls by other products' names, and all controls of a request at once (rule C3)."""

from typing import Any

from cases.writing import Vector, fails, gives, json_text, utf8


def _read(
    name: str, headers: list[list[str]], *, query: str = "", chance: float = 0, rule: str = "C3", **out: Any
) -> Vector:
    given: dict[str, Any] = {"headers": headers}
    if query:
        given["query"] = query
    if chance:
        given["chance"] = chance
    return gives(name, rule, "read_controls", given, out)


def _unread(name: str, header: str, value: str) -> Vector:
    return _read(name, [[header, value]], ignored_aliases=[header.lower()])


_CLOUDFLARE = [
    _read("cf-aig-skip-cache true is no-store", [["CF-AIG-Skip-Cache", "true"]], no_store=True),
    _read("cf-aig-skip-cache in capitals is read", [["cf-aig-skip-cache", "TRUE"]], no_store=True),
    _read("cf-aig-skip-cache false asks nothing", [["cf-aig-skip-cache", "false"]]),
    _unread("cf-aig-skip-cache 1 can't be read", "cf-aig-skip-cache", "1"),
    _read("cf-skip-cache is the older name", [["cf-skip-cache", "true"]], no_store=True),
    _read("cf-aig-cache-ttl is a ttl in seconds", [["cf-aig-cache-ttl", "3600"]], store_ttl_s=3600, max_age_s=3600),
    _read("cf-cache-ttl is the older name", [["cf-cache-ttl", "60"]], store_ttl_s=60, max_age_s=60),
    _unread("a cf-aig-cache-ttl over the ceiling can't be read", "cf-aig-cache-ttl", "2592001"),
    _unread("a cf-aig-cache-ttl that is no number can't be read", "cf-aig-cache-ttl", "1h"),
    _read("cf-aig-cache-key makes a child namespace", [["cf-aig-cache-key", "k"]], children=["k"]),
    _unread("an empty cf-aig-cache-key can't be read", "cf-aig-cache-key", ""),
    _unread("a cf-aig-cache-key of 257 characters can't be read", "cf-aig-cache-key", "k" * 257),
]

_PORTKEY = [
    _read("x-portkey-cache asks nothing that isn't so already", [["x-portkey-cache", "simple"]]),
    _read("x-portkey-cache-force-refresh is no-cache", [["x-portkey-cache-force-refresh", "true"]], no_cache=True),
    _read("x-portkey-cache-force-refresh false asks nothing", [["x-portkey-cache-force-refresh", "False"]]),
    _unread("x-portkey-cache-force-refresh yes can't be read", "x-portkey-cache-force-refresh", "yes"),
    _read("x-portkey-cache-namespace makes a child namespace", [["x-portkey-cache-namespace", "n"]], children=["n"]),
]

_HELICONE = [
    _read("Helicone-Cache-Enabled false is no-store", [["Helicone-Cache-Enabled", "false"]], no_store=True),
    _read("Helicone-Cache-Enabled true asks nothing", [["Helicone-Cache-Enabled", "true"]]),
    _unread("Helicone-Cache-Enabled no can't be read", "Helicone-Cache-Enabled", "no"),
    _read("Helicone-Cache-Seed makes a child namespace", [["Helicone-Cache-Seed", "user-1"]], children=["user-1"]),
    _read("a bucket of 1 is sample 0", [["Helicone-Cache-Bucket-Max-Size", "1"]], chance=0.999, sample=0),
    _read("chance draws a sample of a bucket", [["Helicone-Cache-Bucket-Max-Size", "10"]], chance=0.55, sample=5),
    _read("the lowest chance draws the first sample", [["Helicone-Cache-Bucket-Max-Size", "10"]], sample=0),
    _read(
        "the highest chance draws the last sample",
        [["Helicone-Cache-Bucket-Max-Size", "100"]],
        chance=0.9999999,
        sample=99,
    ),
    _unread("a bucket of 0 can't be read", "Helicone-Cache-Bucket-Max-Size", "0"),
    _unread("a bucket over 100 can't be read", "Helicone-Cache-Bucket-Max-Size", "101"),
    _unread("a bucket that is no number can't be read", "Helicone-Cache-Bucket-Max-Size", "ten"),
    _read(
        "Helicone-Cache-Ignore-Keys names members, sorted",
        [["Helicone-Cache-Ignore-Keys", "top_p, seed,,seed"]],
        ignored=["seed", "top_p"],
    ),
    _read(
        "Helicone-Cache-Ignore-Keys can't name the question",
        [["Helicone-Cache-Ignore-Keys", "messages,seed"]],
        ignored=["seed"],
        ignored_aliases=["helicone-cache-ignore-keys"],
    ),
    _read("Helicone-Cache-Ignore-Keys without a name asks nothing", [["Helicone-Cache-Ignore-Keys", " , "]]),
]

_BIFROST = [
    _read("x-bf-cache-key makes a child namespace", [["x-bf-cache-key", "k"]], children=["k"]),
    _read("x-bf-cache-ttl in seconds is a ttl", [["x-bf-cache-ttl", "30s"]], store_ttl_s=30, max_age_s=30),
    _read("x-bf-cache-ttl without a unit is in seconds", [["x-bf-cache-ttl", "30"]], store_ttl_s=30, max_age_s=30),
    _read("x-bf-cache-ttl in minutes is a ttl", [["x-bf-cache-ttl", "5m"]], store_ttl_s=300, max_age_s=300),
    _read("x-bf-cache-ttl in hours is a ttl", [["x-bf-cache-ttl", "2h"]], store_ttl_s=7200, max_age_s=7200),
    _read("x-bf-cache-ttl in days is a ttl", [["x-bf-cache-ttl", "30d"]], store_ttl_s=2_592_000, max_age_s=2_592_000),
    _read("x-bf-cache-ttl in milliseconds is rounded down", [["x-bf-cache-ttl", "1999ms"]], store_ttl_s=1, max_age_s=1),
    _unread("an x-bf-cache-ttl over the ceiling can't be read", "x-bf-cache-ttl", "31d"),
    _unread("an x-bf-cache-ttl of mixed units can't be read", "x-bf-cache-ttl", "1h30m"),
    _unread("an x-bf-cache-ttl far over the ceiling can't be read", "x-bf-cache-ttl", "999999999d"),
    _read("x-bf-cache-no-store true is no-store", [["x-bf-cache-no-store", "true"]], no_store=True),
    _read(
        "x-bf-cache-type and threshold ask nothing", [["x-bf-cache-type", "semantic"], ["x-bf-cache-threshold", "0.1"]]
    ),
]

_TOGETHER = [
    _read("a request that says nothing asks nothing", [["accept", "*/*"]], rule="C1"),
    _read("another header's no-store asks nothing", [["x-note", "no-store"], ["pragma", "no-cache"]], rule="C1"),
    _read(
        "two lines of Cache-Control are both read",
        [["Cache-Control", "no-cache"], ["cache-control", "max-age=5"]],
        rule="C1",
        no_cache=True,
        max_age_s=5,
    ),
    _read(
        "of a max-age and a ttl the lower is accepted",
        [["cache-control", "max-age=5"], ["foretold-ttl", "60"]],
        rule="C1",
        max_age_s=5,
        store_ttl_s=60,
    ),
    _read(
        "a ttl of ours can't be lengthened by an alias",
        [["cf-aig-cache-ttl", "600"], ["foretold-ttl", "60"]],
        store_ttl_s=60,
        max_age_s=60,
    ),
    _read(
        "a ttl of ours can be shortened by an alias",
        [["foretold-ttl", "600"], ["cf-aig-cache-ttl", "60"]],
        store_ttl_s=60,
        max_age_s=60,
    ),
    _read(
        "no-store is not undone by an alias",
        [["cache-control", "no-store"], ["cf-aig-skip-cache", "false"]],
        no_store=True,
    ),
    _read(
        "a sample of ours goes before a bucket",
        [["Helicone-Cache-Bucket-Max-Size", "10"], ["foretold-sample", "7"]],
        chance=0.2,
        sample=7,
    ),
    _read(
        "namespaces hang in the order of the rule, not of the request",
        [
            ["x-bf-cache-key", "e"],
            ["helicone-cache-seed", "d"],
            ["x-portkey-cache-namespace", "c"],
            ["cf-aig-cache-key", "b"],
            ["foretold-namespace", "a"],
        ],
        children=["a", "b", "c", "d", "e"],
    ),
    _read(
        "controls in the query string count after those in headers",
        [["foretold-namespace", "a"]],
        query="foretold-namespace=b&foretold-sample=2",
        rule="C2",
        children=["a", "b"],
        sample=2,
    ),
    _read("an alias in the query string is none", [], query="cf-aig-skip-cache=true", rule="C2"),
    _read(
        "two aliases that can't be read are both told",
        [["cf-aig-cache-ttl", "x"], ["x-bf-cache-ttl", "y"]],
        ignored_aliases=["cf-aig-cache-ttl", "x-bf-cache-ttl"],
    ),
    fails(
        "a control of ours that can't be read is refused among aliases",
        "C2",
        "read_controls",
        {"headers": [["cf-aig-cache-ttl", "60"], ["foretold-ttl", "x"]]},
        "bad_control",
    ),
    fails(
        "a control of ours in the query string that is not known is refused",
        "C2",
        "read_controls",
        {"headers": [], "query": "foretold-cache=no"},
        "bad_control",
    ),
    fails(
        "tags in headers and query string are counted together",
        "C2",
        "read_controls",
        {"headers": [["foretold-tags", " ".join(f"t{n}" for n in range(16))]], "query": "foretold-tags=x"},
        "bad_control",
    ),
]


def _body(name: str, cache: Any, **out: Any) -> Vector:
    text = utf8(f'{{"cache":{cache}}}') if isinstance(cache, str) else json_text({"cache": cache})
    return gives(name, "C3", "body_controls", {"body": text}, out)


_LITELLM = [
    _body("ttl in the body is for storing", {"ttl": 60}, store_ttl_s=60),
    _body("ttl 0 in the body is a ttl", {"ttl": 0}, store_ttl_s=0),
    _body("a ttl in the body may be the ceiling", {"ttl": 2_592_000}, store_ttl_s=2_592_000),
    _body("s-maxage in the body is for accepting", {"s-maxage": 60}, max_age_s=60),
    _body("s-max-age is another spelling", {"s-max-age": 60}, max_age_s=60),
    _body(
        "no-cache and no-store in the body are read", {"no-cache": True, "no-store": True}, no_cache=True, no_store=True
    ),
    _body("no-cache false in the body asks nothing", {"no-cache": False}),
    _body("namespace in the body makes a child", {"namespace": "n"}, children=["n"]),
    _body("60.0 in the body is 60", '{"ttl":60.0}', store_ttl_s=60),
    _body("a ttl with a fraction can't be read", '{"ttl":1.5}', ignored_aliases=["cache.ttl"]),
    _body("a very small ttl can't be read", '{"ttl":1e-7}', ignored_aliases=["cache.ttl"]),
    _body("a ttl that is true can't be read", {"ttl": True}, ignored_aliases=["cache.ttl"]),
    _body("a ttl that is a text can't be read", {"ttl": "60"}, ignored_aliases=["cache.ttl"]),
    _body("a negative ttl can't be read", {"ttl": -1}, ignored_aliases=["cache.ttl"]),
    _body("a ttl in the body over the ceiling can't be read", {"ttl": 2_592_001}, ignored_aliases=["cache.ttl"]),
    _body("no-cache that is 1 can't be read", {"no-cache": 1}, ignored_aliases=["cache.no-cache"]),
    _body("an empty namespace in the body can't be read", {"namespace": ""}, ignored_aliases=["cache.namespace"]),
    _body(
        "a namespace with a line feed in the body can't be read",
        {"namespace": "ignore\nseed"},
        ignored_aliases=["cache.namespace"],
    ),
    _body("a namespace that is a number can't be read", {"namespace": 1}, ignored_aliases=["cache.namespace"]),
    _body("a name of 32 characters in the body is told", {"x" * 32: 1}, ignored_aliases=["cache." + "x" * 32]),
    _body("a longer name in the body is not told", {"x" * 33: 1}, ignored_aliases=["cache"]),
    _body("an empty name in the body is not told", {"": 1}, ignored_aliases=["cache"]),
    _body(
        "of many names that can't be read the first 8 are told",
        {f"x{n}": 1 for n in range(9)},
        ignored_aliases=[f"cache.x{n}" for n in range(8)],
    ),
    _body("an unknown name in the body can't be read", {"use-cache": True}, ignored_aliases=["cache.use-cache"]),
    _body("a name that can't stand in a header is not told", {"caf\xe9": 1}, ignored_aliases=["cache"]),
    _body(
        "what can be read beside what can't is read", {"ttl": 60, "x": 1}, store_ttl_s=60, ignored_aliases=["cache.x"]
    ),
    _body("a cache that is a text is no control", '"no-store"'),
    _body("a cache that is a list is no control", '[{"no-store":true}]'),
    _body("a cache that is null is no control", "null"),
]

FILES = {"aliases": _CLOUDFLARE + _PORTKEY + _HELICONE + _BIFROST + _TOGETHER + _LITELLM}
