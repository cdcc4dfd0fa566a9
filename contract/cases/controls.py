"""What a request itself asks about caching (rules C1, C2)."""

from typing import Any

from cases.writing import Vector, fails, gives


def _says(name: str, value: str, **out: Any) -> Vector:
    return gives(name, "C1", "cache_control", {"value": value}, out)


_CACHE_CONTROL = [
    _says("no directive asks nothing", ""),
    _says("no-cache asks for a new answer", "no-cache", no_cache=True),
    _says("no-store asks to be left alone", "no-store", no_store=True),
    _says("only-if-cached asks for a hit or nothing", "only-if-cached", only_if_cached=True),
    _says("max-age bounds the age that is accepted", "max-age=60", max_age_s=60),
    _says("max-age=0 is a bound", "max-age=0", max_age_s=0),
    _says("min-fresh asks for time to come", "min-fresh=10", min_fresh_s=10),
    _says("max-stale alone accepts any staleness", "max-stale", max_stale_s="any"),
    _says("max-stale with a number accepts that much", "max-stale=30", max_stale_s=30),
    _says("max-stale=0 is a number", "max-stale=0", max_stale_s=0),
    _says("max-stale with nothing after its sign accepts any", "max-stale=", max_stale_s="any"),
    _says("directives stand beside each other", "no-cache, no-store", no_cache=True, no_store=True),
    _says("white space and case don't count", " Max-Age = 60 ,\tNO-CACHE ", max_age_s=60, no_cache=True),
    _says("a quoted number is a number", 'max-age="60"', max_age_s=60),
    _says("of two max-ages the lower counts", "max-age=60, max-age=30", max_age_s=30),
    _says("of two min-freshes the higher counts", "min-fresh=5, min-fresh=50", min_fresh_s=50),
    _says("of two max-stales the lower counts", "max-stale, max-stale=30", max_stale_s=30),
    _says("a max-age that can't be read counts as no-cache", "max-age=soon", no_cache=True),
    _says("a negative max-age can't be read", "max-age=-1", no_cache=True),
    _says("a max-age with a fraction can't be read", "max-age=1.5", no_cache=True),
    _says("a max-age without a number can't be read", "max-age", no_cache=True),
    _says("a max-age of sixteen digits can't be read", "max-age=1000000000000000", no_cache=True),
    _says("a max-age in digits of another script can't be read", "max-age=\u0661", no_cache=True),
    _says("a min-fresh that can't be read counts as no-cache", "min-fresh=x", no_cache=True),
    _says("a max-stale that can't be read counts as no-cache", "max-stale=x", no_cache=True),
    _says("other directives ask nothing of us", "no-transform, s-maxage=5, private, stale-if-error=9"),
    _says("a name that only holds a directive is none", "x-no-store, no-storex"),
    _says("commas alone ask nothing", ",,"),
]


def _own(name: str, *pairs: list[str], **out: Any) -> Vector:
    return gives(name, "C2", "own_controls", {"pairs": list(pairs)}, out)


def _bad(name: str, *pairs: list[str]) -> Vector:
    return fails(name, "C2", "own_controls", {"pairs": list(pairs)}, "bad_control")


_OWN = [
    _own("headers of others ask nothing", ["x-foretold-ttl", "5"], ["accept", "foretold-ttl"]),
    _own(
        "foretold-ttl lowers what is stored and what is accepted", ["foretold-ttl", "60"], store_ttl_s=60, max_age_s=60
    ),
    _own("foretold-ttl 0 is a ttl", ["foretold-ttl", "0"], store_ttl_s=0, max_age_s=0),
    _own("foretold-ttl may be the ceiling", ["foretold-ttl", "2592000"], store_ttl_s=2_592_000, max_age_s=2_592_000),
    _own(
        "foretold-ttl forever is the ceiling", ["Foretold-TTL", "forever"], store_ttl_s=2_592_000, max_age_s=2_592_000
    ),
    _own("spaces around a value don't count", ["foretold-ttl", " 60\t"], store_ttl_s=60, max_age_s=60),
    _own("of two ttls the lower counts", ["foretold-ttl", "60"], ["foretold-ttl", "30"], store_ttl_s=30, max_age_s=30),
    _own(
        "foretold-tags are parted by spaces, tabs and commas",
        ["foretold-tags", "a, b\tc  d,,e"],
        tags=["a", "b", "c", "d", "e"],
    ),
    _own("a tag given twice is one", ["foretold-tags", "a b a"], ["foretold-tags", "b c"], tags=["a", "b", "c"]),
    _own("no tags are no tags", ["foretold-tags", ""]),
    _own(
        "16 tags are allowed",
        ["foretold-tags", " ".join(f"t{n}" for n in range(16))],
        tags=[f"t{n}" for n in range(16)],
    ),
    _own("foretold-sample names a draw", ["foretold-sample", "7"], sample=7),
    _own("foretold-sample 0 is a draw", ["foretold-sample", "0"], sample=0),
    _own("foretold-sample may be 99", ["foretold-sample", "99"], sample=99),
    _own("zeros before a sample don't count", ["foretold-sample", "007"], sample=7),
    _own("of two samples the first counts", ["foretold-sample", "3"], ["foretold-sample", "4"], sample=3),
    _own("foretold-namespace makes a child", ["foretold-namespace", "team a"], children=["team a"]),
    _own(
        "two namespaces make a child of a child",
        ["foretold-namespace", "a"],
        ["foretold-namespace", "b"],
        children=["a", "b"],
    ),
    _own("foretold-pace recorded replays an answer's timing", ["foretold-pace", "recorded"], pace_recorded=True),
    _own("foretold-keep-alive keeps a model loaded for so long", ["foretold-keep-alive", "300"], keep_alive_s=300),
    _own("foretold-keep-alive 0 unloads it when it is idle", ["Foretold-Keep-Alive", "0"], keep_alive_s=0),
    _own(
        "foretold-keep-alive -1 keeps it for as long as there is room", ["foretold-keep-alive", "-1"], keep_alive_s=-1
    ),
    _own(
        "of two keep-alives the first counts",
        ["foretold-keep-alive", "-1"],
        ["foretold-keep-alive", "5"],
        keep_alive_s=-1,
    ),
    _own("foretold-revision says which one a caller believes in", ["foretold-revision", "4bf5"], revision="4bf5"),
    _own(
        "of two revisions the first counts",
        ["foretold-revision", "a"],
        ["foretold-revision", "b"],
        revision="a",
    ),
    _bad("an unknown control is refused", ["foretold-tll", "60"]),
    _bad("a control without a name is refused", ["foretold-", "60"]),
    _bad("a negative ttl is refused", ["foretold-ttl", "-1"]),
    _bad("a ttl over the ceiling is refused", ["foretold-ttl", "2592001"]),
    _bad("a ttl with a unit is refused", ["foretold-ttl", "60s"]),
    _bad("a ttl with a fraction is refused", ["foretold-ttl", "1.5"]),
    _bad("an empty ttl is refused", ["foretold-ttl", ""]),
    _bad("Forever in capitals is refused", ["foretold-ttl", "Forever"]),
    _bad("a sample over 99 is refused", ["foretold-sample", "100"]),
    _bad("a negative sample is refused", ["foretold-sample", "-1"]),
    _bad("a tag in capitals is refused", ["foretold-tags", "a B"]),
    _bad("a tag of 65 characters is refused", ["foretold-tags", "a" * 65]),
    _bad("17 tags are refused", ["foretold-tags", " ".join(f"t{n}" for n in range(17))]),
    _bad(
        "17 tags on two lines are refused",
        ["foretold-tags", " ".join(f"t{n}" for n in range(16))],
        ["foretold-tags", "one-more"],
    ),
    _own(
        "8 namespaces may be nested",
        *(["foretold-namespace", f"n{n}"] for n in range(8)),
        children=[f"n{n}" for n in range(8)],
    ),
    _bad("9 nested namespaces are refused", *(["foretold-namespace", f"n{n}"] for n in range(9))),
    _bad("an empty namespace is refused", ["foretold-namespace", " "]),
    _bad("a namespace of 257 characters is refused", ["foretold-namespace", "x" * 257]),
    _bad("a namespace with a line feed is refused", ["foretold-namespace", "ignore\nseed"]),
    _bad("another pace is refused", ["foretold-pace", "slow"]),
    _bad("a keep-alive below -1 is refused", ["foretold-keep-alive", "-2"]),
    _bad("a keep-alive with a unit is refused", ["foretold-keep-alive", "5m"]),
    _bad("a keep-alive over the ceiling is refused", ["foretold-keep-alive", "2592001"]),
    _bad("an empty keep-alive is refused", ["foretold-keep-alive", ""]),
    _bad("an empty revision is refused", ["foretold-revision", ""]),
    _bad("a revision of 257 characters is refused", ["foretold-revision", "x" * 257]),
]


def _split(name: str, query: str, found: list[list[str]], kept: str) -> Vector:
    return gives(name, "C2", "split_query", {"query": query}, {"found": found, "kept": kept})


_QUERIES = [
    _split("an empty query string holds no control", "", [], ""),
    _split("a query string without controls is kept as it is", "b=1&&a=%20+x&=", [], "b=1&&a=%20+x&="),
    _split("a control is taken out", "foretold-ttl=60", [["foretold-ttl", "60"]], ""),
    _split(
        "what stands around a control is kept as it was",
        "a=1&foretold-ttl=60&b=%41",
        [["foretold-ttl", "60"]],
        "a=1&b=%41",
    ),
    _split(
        "controls come out in their order",
        "foretold-sample=1&x&foretold-ttl=2",
        [["foretold-sample", "1"], ["foretold-ttl", "2"]],
        "x",
    ),
    _split("a control's name may be in capitals", "Foretold-TTL=60", [["foretold-ttl", "60"]], ""),
    _split("a control's name may be escaped", "foretold%2Dttl=60", [["foretold-ttl", "60"]], ""),
    _split("a control's first letter may be escaped", "a=b&%66oretold-ttl=60", [["foretold-ttl", "60"]], "a=b"),
    _split(
        "a control's value is unescaped", "foretold-namespace=a%20b+c%C3%A9", [["foretold-namespace", "a b c\xe9"]], ""
    ),
    _split("a control's value may hold an equals sign", "foretold-namespace=a=b", [["foretold-namespace", "a=b"]], ""),
    _split("a control without a value has an empty one", "foretold-ttl", [["foretold-ttl", ""]], ""),
    _split(
        "bytes that are no UTF-8 are replaced in a control",
        "foretold-namespace=%FF",
        [["foretold-namespace", "\ufffd"]],
        "",
    ),
    _split(
        "an escape that is none stays in a control", "foretold-namespace=%zz%4", [["foretold-namespace", "%zz%4"]], ""
    ),
    _split(
        "a value that looks like a control is none",
        "x=foretold-ttl&y=foretold-ttl=1",
        [],
        "x=foretold-ttl&y=foretold-ttl=1",
    ),
    _split(
        "a name that only holds a control's is none",
        "xforetold-ttl=1&foretoldttl=1",
        [],
        "xforetold-ttl=1&foretoldttl=1",
    ),
    _split("an unknown control is taken out to be refused", "foretold-x=1", [["foretold-x", "1"]], ""),
]

_TTLS = [
    gives(name, "C2", "ttl_s", {"value": value}, out)
    for name, value, out in [
        ("seconds are a ttl", "60", 60),
        ("zeros before seconds don't count", "0060", 60),
        ("forever is 30 days", "forever", 2_592_000),
        ("a second over the ceiling is no ttl", "2592001", None),
        ("a plus sign is no ttl", "+60", None),
        ("a space is no ttl", " 60", None),
        ("digits of another script are no ttl", "\u0666\u0660", None),
        ("no digits are no ttl", "", None),
        ("sixteen digits are no ttl", "0000000000000001", None),
    ]
]

FILES = {"controls": _CACHE_CONTROL + _OWN + _QUERIES + _TTLS}
