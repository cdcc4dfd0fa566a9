"""What an answer says about the cache (rules S1, S2), and how upstreams are treated (rule U1)."""

from typing import Any

from cases.writing import Vector, gives


def _status(name: str, out: str, **members: Any) -> Vector:
    return gives(name, "S1", "cache_status", {"status": members}, out)


_STATUS = [
    _status("a hit says how long it stays fresh", "Foretold; hit; ttl=86399", hit=True, ttl_s=86_399),
    _status("a hit with a ttl of 0 says so", "Foretold; hit; ttl=0", hit=True, ttl_s=0),
    _status(
        "a stale hit has a negative ttl", "Foretold; hit; ttl=-5; detail=stale", hit=True, ttl_s=-5, detail="stale"
    ),
    _status("a miss that is stored says both", "Foretold; fwd=uri-miss; stored", forwarded="uri-miss", stored=True),
    _status(
        "a follower says that it rode along", "Foretold; fwd=uri-miss; collapsed", forwarded="uri-miss", collapsed=True
    ),
    _status("a pass says why", "Foretold; fwd=bypass; detail=no-store", forwarded="bypass", detail="no-store"),
    _status(
        "an unkeyable request says what made it so",
        "Foretold; fwd=bypass; detail=unkeyable-number",
        forwarded="bypass",
        detail="unkeyable-number",
    ),
    _status("no-cache is the request's wish", "Foretold; fwd=request; stored", forwarded="request", stored=True),
    _status("a stale record that was fetched anew", "Foretold; fwd=stale; stored", forwarded="stale", stored=True),
    _status(
        "a partial hit says how much it had", 'Foretold; fwd=partial; detail="3/8"', forwarded="partial", detail="3/8"
    ),
    _status("the edge has a name of its own", "Foretold-Edge; hit; ttl=1", cache="Foretold-Edge", hit=True, ttl_s=1),
    _status("a key is quoted", f'Foretold; hit; ttl=1; key="{"ab" * 32}"', hit=True, ttl_s=1, key="ab" * 32),
    _status(
        "everything stands in one order",
        'Foretold; fwd=stale; ttl=-1; stored; collapsed; key="k"; detail=x',
        forwarded="stale",
        ttl_s=-1,
        stored=True,
        collapsed=True,
        key="k",
        detail="x",
    ),
    _status("a name alone says only who was here", "Foretold"),
    _status("a detail may hold a token's signs", "Foretold; detail=a.b/c:d_e-f*g", detail="a.b/c:d_e-f*g"),
    _status("a detail that starts with a digit is a string", 'Foretold; detail="1a"', detail="1a"),
    _status("a detail that starts with a star is a string", 'Foretold; detail="*"', detail="*"),
    _status("a detail with a space is a string", 'Foretold; detail="a b"', detail="a b"),
    _status("an empty detail is a string", 'Foretold; detail=""', detail=""),
    _status("quotes and backslashes in a detail are escaped", 'Foretold; detail="a\\"b\\\\c"', detail='a"b\\c'),
    _status(
        "other characters in a detail are replaced one by one", 'Foretold; detail="?? ?"', detail="\xe9\U0001f642 \n"
    ),
    _status("letters of other scripts make no token", 'Foretold; detail="?"', detail="\xe9"),
]


def _listed(name: str, before: str | None, out: str) -> Vector:
    return gives(name, "S1", "listed", {"before": before, "status": {"hit": True, "ttl_s": 1}}, out)


_LISTED = [
    _listed("the only member of a list is ours", None, "Foretold; hit; ttl=1"),
    _listed("ours comes after the origin's", "Origin; fwd=miss", "Origin; fwd=miss, Foretold; hit; ttl=1"),
    _listed("an empty list before ours is none", "", "Foretold; hit; ttl=1"),
    _listed(
        "ours comes after all others", 'A; hit, B; detail="x, y"', 'A; hit, B; detail="x, y", Foretold; hit; ttl=1'
    ),
]

_TAG = 'W/"0123456789abcdef-whole"'
_ETAGS = [
    gives(
        "a validator is 16 digits of the body's digest and its shape",
        "S2",
        "etag",
        {"body_sha256": "0123456789abcdef" * 4, "shape": "whole"},
        _TAG,
    ),
    gives(
        "another shape has another validator",
        "S2",
        "etag",
        {"body_sha256": "0123456789abcdef" * 4, "shape": "events"},
        'W/"0123456789abcdef-events"',
    ),
    *(
        gives(name, "S2", "etag_matches", {"if_none_match": said, "etag": _TAG}, out)
        for name, said, out in [
            ("the validator itself matches", _TAG, True),
            ("a strong validator of that text matches weakly", '"0123456789abcdef-whole"', True),
            ("one of a list matches", f'"x" , {_TAG}', True),
            ("a star matches everything", " * ", True),
            ("another shape's validator doesn't match", 'W/"0123456789abcdef-events"', False),
            ("a validator without its quotes doesn't match", "0123456789abcdef-whole", False),
            ("an empty list matches nothing", "", False),
            ("a star among others is no star", '*, "x"', False),
        ]
    ),
    *(
        gives(
            f"a client may revalidate a hit of {method}",
            "S2",
            "client_cache_control",
            {"method": method, "hit": True},
            "private, no-cache",
        )
        for method in ("GET", "HEAD", "QUERY")
    ),
    gives("a client keeps no hit of POST", "S2", "client_cache_control", {"method": "POST", "hit": True}, "no-store"),
    gives("a client keeps no miss", "S2", "client_cache_control", {"method": "GET", "hit": False}, "no-store"),
    *(
        gives(f"304 may answer {method}", "S2", "may_answer_304", {"method": method}, True)
        for method in ("GET", "HEAD", "QUERY")
    ),
    *(
        gives(f"304 never answers {method}", "S2", "may_answer_304", {"method": method}, False)
        for method in ("POST", "PUT", "DELETE", "get")
    ),
]


def _retry(name: str, out: float | None, **rest: Any) -> Vector:
    given = {
        "failure": None,
        "status": None,
        "retry_after": None,
        "sent_any": False,
        "retries_done": 0,
        "chance": 0.5,
        "once": False,
        **rest,
    }
    return gives(name, "U1", "retry_after_s", given, out)


_RETRIES = [
    _retry("a connect failure is tried again soon", 0.1, failure="connect"),
    _retry("the second wait is longer", 0.2, failure="connect", retries_done=1),
    _retry("there is no third retry", None, failure="connect", retries_done=2),
    _retry("the shortest wait is half", 0.05, failure="connect", chance=0),
    _retry("chance lengthens a wait", 0.125, failure="connect", chance=0.75),
    _retry("a time-out is never tried again", None, failure="timeout"),
    _retry("an answer cut before its first byte is tried once more", 0.1, failure="cut"),
    _retry("an answer cut a second time is not", None, failure="cut", retries_done=1),
    _retry("after a byte nothing is tried again", None, failure="connect", sent_any=True),
    _retry("a 429 that says when is tried then", 2.1, status=429, retry_after="2"),
    _retry("a 429 that says at once is tried soon", 0.1, status=429, retry_after="0"),
    _retry("a 429 that says 5 seconds is tried", 5.1, status=429, retry_after="5"),
    _retry("a 429 that says 6 seconds is not", None, status=429, retry_after="6"),
    _retry("a 429 that doesn't say when is not", None, status=429),
    _retry("a 429 that gives a date is not", None, status=429, retry_after="Tue, 14 Nov 2023 22:13:20 GMT"),
    _retry("a 503 that says when is tried then", 1.1, status=503, retry_after=" 1 "),
    _retry("a 503 that says too late is not", None, status=503, retry_after="60"),
    _retry("a 503 that doesn't say when is tried soon", 0.1, status=503),
    _retry("a 503 that gives a date is tried soon", 0.1, status=503, retry_after="Tue, 14 Nov 2023 22:13:20 GMT"),
    _retry("a 502 is tried soon", 0.1, status=502),
    _retry("a 502 is tried soon whatever it says", 0.1, status=502, retry_after="60"),
    _retry("a 504 is tried soon", 0.1, status=504),
    _retry("a 504 after a byte is not", None, status=504, sent_any=True),
    _retry("a 500 is never tried again", None, status=500),
    _retry("a 501 is never tried again", None, status=501),
    _retry("a 400 is never tried again", None, status=400),
    _retry("a 408 is never tried again", None, status=408),
    _retry("a 200 is not tried again", None, status=200),
    _retry("what was never sent is tried again though it may be asked only once", 0.1, failure="connect", once=True),
    _retry("an answer cut before its first byte isn't, if it may be asked only once", None, failure="cut", once=True),
    _retry("a 502 isn't tried again if it may be asked only once", None, status=502, once=True),
    _retry(
        "a 429 isn't tried when it says, if it may be asked only once", None, status=429, retry_after="1", once=True
    ),
]

_FALLBACKS = [
    gives(name, "U1", "may_fall_back", {"failure": failure, "status": status, "once": False}, out)
    for name, failure, status, out in [
        ("after a connect failure another may answer", "connect", None, True),
        ("after a time-out another may answer", "timeout", None, True),
        ("after an answer cut before its first byte another may answer", "cut", None, True),
        ("after a 429 another may answer", None, 429, True),
        ("after a 500 another may answer", None, 500, True),
        ("after a 599 another may answer", None, 599, True),
        ("after a 400 no other answers", None, 400, False),
        ("after a 401 no other answers", None, 401, False),
        ("after a 499 no other answers", None, 499, False),
        ("after a 200 no other answers", None, 200, False),
    ]
] + [
    gives(name, "U1", "may_fall_back", {"failure": failure, "status": status, "once": True}, False)
    for name, failure, status in [
        ("no other answers what may be asked only once, after a 500", None, 500),
        ("no other answers what may be asked only once, after a connect failure", "connect", None),
    ]
]

_EDGE = [
    gives(name, "U1", "edge_may_store", {"cache_status": said}, out)
    for name, said, out in [
        ("the edge keeps what no node touched", None, True),
        ("the edge keeps what another cache touched", "Other; fwd=miss", True),
        ("the edge keeps a node's hit", "Foretold; hit; ttl=5", True),
        ("the edge keeps what a node stored", "Foretold; fwd=uri-miss; stored", True),
        ("the edge keeps what a node's follower got", "Foretold; fwd=uri-miss; collapsed", True),
        ("the edge keeps nothing that a node passed", "Foretold; fwd=bypass; detail=no-store", False),
        ("the edge keeps nothing that a node didn't store", "Foretold; fwd=uri-miss", False),
        ("the edge keeps no fallback's answer", "Foretold; fwd=uri-miss; stored; detail=fallback", False),
        ("the edge keeps no fallback's answer whatever stands before", "Foretold; detail=fallback; hit", False),
        ("the edge keeps nothing of another revision", "Foretold; hit; ttl=5; detail=other-revision", False),
        ("the edge keeps nothing of another revision that is stored", "Foretold; stored; detail=other-revision", False),
        ("the last node's word counts", "Foretold; hit, Foretold; fwd=bypass", False),
        (
            "the last node's word counts, wherever others stand",
            "Foretold; fwd=bypass, Foretold; hit, Other; fwd=miss",
            True,
        ),
        ("another edge is no node", "Foretold-Edge; fwd=bypass", True),
        ("a word in a quoted text is none of the node's", 'Foretold; fwd=uri-miss; detail="x; stored"', False),
        ("a comma in a quoted text parts nothing", 'Foretold; hit; detail="a, Foretold; fwd=bypass"', True),
        ("an escaped quote ends no text", 'Foretold; detail="a\\"; hit"', False),
        ("another cache's quoted text names no node", 'Other; detail="Foretold; fwd=bypass"', True),
        ("spaces around words don't count", " Foretold ;hit ", True),
        ("semicolons alone name no node", ";;", True),
        ("commas alone name no node", ", ,", True),
        ("an empty list names no node", "", True),
    ]
]

FILES = {"status": _STATUS + _LISTED + _ETAGS, "manners": _RETRIES + _FALLBACKS + _EDGE}
