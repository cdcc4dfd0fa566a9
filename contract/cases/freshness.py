"""What time says of a record (rules F1, C1), and what an upstream says (F2)."""

from typing import Any

from cases.writing import Vector, gives

_MADE = 1_700_000_000_000
_SHORT = {"fresh_s": 100, "stale_while_revalidate_s": 50, "stale_if_error_s": 200}
_PATIENT = {"fresh_s": 100, "stale_while_revalidate_s": 200, "stale_if_error_s": 50}
_NOTHING = {"fresh_s": 0, "stale_while_revalidate_s": 0, "stale_if_error_s": 0}


def _at(age_s: float, lifetimes: dict[str, int] = _SHORT) -> dict[str, Any]:
    """A record of this age."""
    return {"made_ms": _MADE, "now_ms": _MADE + round(age_s * 1000), "lifetimes": lifetimes}


def _judged(name: str, given: dict[str, Any], verdict: str, age_s: int, ttl_s: int) -> Vector:
    return gives(name, "F1", "judge", given, {"verdict": verdict, "age_s": age_s, "ttl_s": ttl_s})


_AGES = [
    gives(name, "F1", "age_s", {"made_ms": _MADE, "now_ms": _MADE + after_ms}, age)
    for name, after_ms, age in [
        ("a record just made has age 0", 0, 0),
        ("age counts whole seconds", 1999, 1),
        ("age rounds down", 999, 0),
        ("a second is a second", 1000, 1),
        ("a record made in the future has age 0", -1, 0),
        ("a record made far in the future has age 0", -3_600_000, 0),
        ("a day is 86,400 seconds", 86_400_000, 86_400),
    ]
]

_VERDICTS = [
    _judged("a record just made is fresh", _at(0), "fresh", 0, 100),
    _judged("a record is fresh for its last second", _at(99.999), "fresh", 99, 1),
    _judged("a record is stale once its lifetime has passed", _at(100), "stale", 100, 0),
    _judged("a stale record's ttl is negative", _at(101), "stale", 101, -1),
    _judged("a record is stale while either stale lifetime lasts", _at(299.999), "stale", 299, -199),
    _judged("a record is dead after the larger stale lifetime", _at(300), "dead", 300, -200),
    _judged("the larger may be stale-while-revalidate", _at(299, _PATIENT), "stale", 299, -199),
    _judged("and after it a record is dead", _at(300, _PATIENT), "dead", 300, -200),
    _judged("0 seconds are never fresh", _at(0, {**_SHORT, "fresh_s": 0}), "stale", 0, 0),
    _judged("three zeros are dead at once", _at(0, _NOTHING), "dead", 0, 0),
    _judged(
        "without stale lifetimes a record is dead when no longer fresh",
        _at(100, {**_NOTHING, "fresh_s": 100}),
        "dead",
        100,
        0,
    ),
    _judged("a writer's clock may be 5 seconds ahead", _at(-5), "fresh", 0, 100),
    _judged("a record made more than 5 seconds ahead is never fresh", _at(-5.001), "stale", 0, 0),
    _judged("a record made a day ahead is stale, not dead", _at(-86_400), "stale", 0, 0),
    _judged("a record ahead that has no stale lifetime is dead", _at(-6, _NOTHING), "dead", 0, 0),
    _judged("the ceiling is 30 days", _at(2_591_999, {**_NOTHING, "fresh_s": 2_592_000}), "fresh", 2_591_999, 1),
]


_BY_DEFAULT = [
    _judged(
        f"by default a record of {age_s} seconds is {verdict}",
        {"made_ms": _MADE, "now_ms": _MADE + age_s * 1000},
        verdict,
        age_s,
        86_400 - age_s,
    )
    for age_s, verdict in [(86_399, "fresh"), (86_400, "stale"), (691_199, "stale"), (691_200, "dead")]
]


def _may(op: str, name: str, given: dict[str, Any], out: bool) -> Vector:
    return gives(name, "F1", op, given, out)


_STALE = [
    _may("may_revalidate_behind", "a fresh record needs no revalidating", _at(99), False),
    _may("may_revalidate_behind", "a stale record may be given while a new one is fetched", _at(149), True),
    _may("may_revalidate_behind", "but no longer than stale-while-revalidate says", _at(150), False),
    _may(
        "may_revalidate_behind",
        "a stale-while-revalidate of 0 allows none",
        _at(100, {**_SHORT, "stale_while_revalidate_s": 0}),
        False,
    ),
    _may("may_revalidate_behind", "a record ahead of our clock may be given meanwhile", _at(-60), True),
    _may(
        "may_revalidate_behind",
        "by default a record may be given meanwhile for a second day",
        {"made_ms": _MADE, "now_ms": _MADE + 172_799_000},
        True,
    ),
    _may(
        "may_revalidate_behind",
        "by default a record may not be given meanwhile on the third day",
        {"made_ms": _MADE, "now_ms": _MADE + 172_800_000},
        False,
    ),
    _may("may_replace_error", "a fresh record replaces no error", _at(99), False),
    _may("may_replace_error", "a stale record may replace an error", _at(299), True),
    _may("may_replace_error", "a dead record may not replace an error", _at(300), False),
    _may("may_replace_error", "nor one past stale-if-error that still lives otherwise", _at(150, _PATIENT), False),
    _may(
        "may_replace_error", "a stale-if-error of 0 allows none", _at(100, {**_PATIENT, "stale_if_error_s": 0}), False
    ),
]


def _accepts(name: str, age_s: float, out: bool, *, lifetimes: dict[str, int] = _SHORT, **directives: Any) -> Vector:
    return gives(name, "C1", "accepts", {**_at(age_s, lifetimes), **directives}, out)


_ACCEPTED = [
    _accepts("a fresh record is accepted", 99, True),
    _accepts("a stale record is not accepted", 100, False),
    _accepts("max-age accepts a record of that age", 50, True, max_age_s=50),
    _accepts("max-age refuses an older one", 51, False, max_age_s=50),
    _accepts("max-age 0 accepts a record of age 0", 0.9, True, max_age_s=0),
    _accepts("max-age 0 refuses a record of a second", 1, False, max_age_s=0),
    _accepts("max-age makes no stale record fresh", 150, False, max_age_s=1000),
    _accepts("min-fresh accepts a record that stays fresh so long", 90, True, min_fresh_s=10),
    _accepts("min-fresh refuses one that doesn't", 91, False, min_fresh_s=10),
    _accepts("max-stale accepts any record that is not dead", 299, True, max_stale_s="any"),
    _accepts("max-stale accepts no dead record", 300, False, max_stale_s="any"),
    _accepts("max-stale accepts staleness up to its number", 110, True, max_stale_s=10),
    _accepts("max-stale refuses staleness over its number", 111, False, max_stale_s=10),
    _accepts("max-stale 0 accepts a record that has just become stale", 100, True, max_stale_s=0),
    _accepts("max-stale 0 accepts no staler one", 101, False, max_stale_s=0),
    _accepts("max-stale and min-fresh together accept no stale record", 101, False, max_stale_s="any", min_fresh_s=1),
    _accepts("max-stale widens no max-age", 120, False, max_stale_s="any", max_age_s=119),
    _accepts("max-stale within max-age is accepted", 120, True, max_stale_s=20, max_age_s=120),
]

_KEPT_IN_KV = [
    gives(name, "F1", "kv_expiration_s", given, out)
    for name, given, out in [
        ("KV keeps a record until it is dead and a minute more", _at(0), 360),
        ("KV keeps an older record for less", _at(100), 260),
        ("KV keeps a record at least a minute", _at(1000), 60),
        ("KV keeps a record that dies at once for a minute", _at(0, _NOTHING), 60),
        ("the larger stale lifetime counts for KV", _at(0, _PATIENT), 360),
    ]
]

_WHEN_MADE = [
    gives(name, "F1", "made_ms", {"last_byte_ms": _MADE, "age": age}, made)
    for name, age, made in [
        ("an answer without Age was made with its last byte", None, _MADE),
        ("an answer was made as long ago as its Age says", "30", _MADE - 30_000),
        ("an Age of 0 is none", "0", _MADE),
        ("spaces around an Age don't count", " 30 ", _MADE - 30_000),
        ("an Age that is no number is none", "soon", _MADE),
        ("of several Ages the first counts", "30, 5", _MADE - 30_000),
        ("a negative Age is none", "-5", _MADE),
        ("an Age with a fraction is none", "1.5", _MADE),
        ("an Age of more than ten digits is none", "99999999999", _MADE),
        ("an empty Age is none", "", _MADE),
    ]
]

_DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
_LONG = {"fresh_s": 86_400, "stale_while_revalidate_s": 86_400, "stale_if_error_s": 604_800}


def _upstream(name: str, headers: dict[str, str], fresh_s: int | None, **rest: Any) -> Vector:
    given = {"headers": headers, "lifetimes": _LONG, "shared_scope": False, "keyed": [], "now_ms": _MADE, **rest}
    return gives(name, "F2", "upstream_lifetimes", given, None if fresh_s is None else {**_LONG, "fresh_s": fresh_s})


def _windows(name: str, directives: str, fresh_s: int, behind_s: int, on_error_s: int) -> Vector:
    given = {
        "headers": {"cache-control": directives},
        "lifetimes": _LONG,
        "shared_scope": False,
        "keyed": [],
        "now_ms": _MADE,
    }
    left = {"fresh_s": fresh_s, "stale_while_revalidate_s": behind_s, "stale_if_error_s": on_error_s}
    return gives(name, "F2", "upstream_lifetimes", given, left)


_UPSTREAM = [
    _upstream("an upstream that says nothing leaves our lifetimes", {}, 86_400),
    _upstream("no-store is never stored", {"cache-control": "no-store"}, None),
    _upstream("no-store among others is never stored", {"cache-control": "max-age=60, no-store"}, None),
    _upstream("no-store in capitals is never stored", {"cache-control": "No-Store"}, None),
    _upstream("no-cache is not stored, since it may not be given without asking", {"cache-control": "no-cache"}, None),
    _upstream("max-age bounds how long a record is fresh", {"cache-control": "max-age=60"}, 60),
    _upstream("a longer max-age doesn't lengthen our lifetime", {"cache-control": "max-age=999999"}, 86_400),
    _upstream("max-age=0 is not stored", {"cache-control": "max-age=0"}, None),
    _upstream("a max-age that can't be read is 0", {"cache-control": "max-age=soon"}, None),
    _upstream("a quoted max-age is read", {"cache-control": 'max-age="60"'}, 60),
    _upstream("the first max-age counts", {"cache-control": "max-age=60, max-age=120"}, 60),
    _upstream("s-maxage is for shared caches, which we are not", {"cache-control": "s-maxage=5"}, 86_400),
    _upstream("public says nothing to a private cache", {"cache-control": "public"}, 86_400),
    _upstream("private is stored in a tenant's own namespace", {"cache-control": "private, max-age=60"}, 60),
    _upstream(
        "private is not stored in shared scope", {"cache-control": "private, max-age=60"}, None, shared_scope=True
    ),
    _upstream("an answer as old as its max-age is not stored", {"cache-control": "max-age=60", "age": "60"}, None),
    _upstream("of several Ages the first is that of the answer", {"cache-control": "max-age=60", "age": "60, 1"}, None),
    _upstream("an answer younger than its max-age is stored", {"cache-control": "max-age=60", "age": "59"}, 60),
    _upstream("Vary by a keyed header is stored", {"vary": "Accept-Language"}, 86_400, keyed=["accept-language"]),
    _upstream(
        "Vary by another header is not stored", {"vary": "Accept-Language, Cookie"}, None, keyed=["accept-language"]
    ),
    _upstream("Vary by accept-encoding is stored, since we ask for identity", {"vary": "Accept-Encoding"}, 86_400),
    _upstream("Vary by everything is not stored", {"vary": "*"}, None),
    _upstream("an empty Vary says nothing", {"vary": ""}, 86_400),
    _upstream(
        "Expires less Date bounds how long a record is fresh",
        {"expires": "Tue, 14 Nov 2023 22:14:20 GMT", "date": _DATE},
        60,
    ),
    _upstream(
        "an upstream's clock may be wrong: only the difference counts",
        {"expires": "Thu, 01 Jan 2015 00:01:00 GMT", "date": "Thu, 01 Jan 2015 00:00:00 GMT"},
        60,
    ),
    _upstream("Expires without Date counts from now", {"expires": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60),
    _upstream("a Date that can't be read is now", {"expires": "Tue, 14 Nov 2023 22:14:20 GMT", "date": "today"}, 60),
    _upstream("an Expires that can't be read has passed", {"expires": "0", "date": _DATE}, None),
    _upstream("an Expires before 1970 has passed", {"expires": "Mon, 01 Jan 0000 00:00:00 GMT", "date": _DATE}, None),
    _upstream(
        "an Expires in an old form has passed", {"expires": "Tuesday, 14-Nov-23 22:14:20 GMT", "date": _DATE}, None
    ),
    _upstream(
        "an Expires of a month that is none has passed",
        {"expires": "Tue, 14 Foo 2030 22:14:20 GMT", "date": _DATE},
        None,
    ),
    _upstream(
        "an Expires that has passed is not stored", {"expires": "Tue, 14 Nov 2023 22:13:19 GMT", "date": _DATE}, None
    ),
    _upstream(
        "max-age goes before Expires",
        {"cache-control": "max-age=30", "expires": "Tue, 14 Nov 2023 23:13:20 GMT", "date": _DATE},
        30,
    ),
    _upstream(
        "a leap day is a day",
        {"expires": "Fri, 01 Mar 2024 00:00:00 GMT", "date": "Thu, 29 Feb 2024 00:00:00 GMT"},
        86_400,
    ),
]

_UPSTREAM += [
    _windows("must-revalidate leaves no stale windows", "max-age=60, must-revalidate", 60, 0, 0),
    _windows("must-revalidate without max-age leaves none either", "Must-Revalidate", 86_400, 0, 0),
    _windows("proxy-revalidate is for shared caches, which we are not", "proxy-revalidate", 86_400, 86_400, 604_800),
    _windows("stale-while-revalidate bounds its window", "max-age=60, stale-while-revalidate=30", 60, 30, 604_800),
    _windows("stale-if-error bounds its window", "max-age=60, stale-if-error=90", 60, 86_400, 90),
    _windows("a longer window doesn't lengthen ours", "stale-while-revalidate=99999999", 86_400, 86_400, 604_800),
    _windows("a window that can't be read is 0", "stale-while-revalidate, stale-if-error=x", 86_400, 0, 0),
    _windows(
        "must-revalidate goes before windows",
        "must-revalidate, stale-while-revalidate=30, stale-if-error=30",
        86_400,
        0,
        0,
    ),
]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UPSTREAM += [
    _upstream(
        f"an Expires in {month} is read",
        {"expires": f"Sun, 01 {month} 2023 00:00:30 GMT", "date": f"Sun, 01 {month} 2023 00:00:00 GMT"},
        30,
    )
    for month in _MONTHS
]
_UPSTREAM += [
    _upstream(
        name,
        {"expires": f"Sun, 01 {month} 2023 00:00:00 GMT", "date": f"Sun, 28 {month_of_date} 2023 23:00:00 GMT"},
        fresh_s,
    )
    for name, month_of_date, month, fresh_s in [
        ("March follows on February", "Feb", "Mar", 3600),
        ("October comes after September", "Sep", "Oct", 86_400),
        ("May has passed in June", "Jun", "May", None),
    ]
]

FILES = {
    "freshness": _AGES + _VERDICTS + _BY_DEFAULT + _STALE + _ACCEPTED + _KEPT_IN_KV + _WHEN_MADE,
    "upstream": _UPSTREAM,
}
