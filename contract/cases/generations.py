"""Purging by tags (rule G1)."""

import reference

from cases.writing import Vector, gives


def _alive(name: str, held: dict[str, str], current: dict[str, str], out: bool) -> Vector:
    return gives(name, "G1", "is_alive", {"held": held, "current": current}, out)


_ALIVE = [
    _alive("a record whose tags were never purged is alive", {"*": "a1", "model:m": ""}, {"*": "a1"}, True),
    _alive("a record made after a purge is alive", {"*": "a1", "model:m": "b2"}, {"*": "a1", "model:m": "b2"}, True),
    _alive("a purge of a tag kills", {"*": "a1", "model:m": ""}, {"*": "a1", "model:m": "b2"}, False),
    _alive("a second purge of a tag kills", {"*": "a1", "model:m": "b2"}, {"*": "a1", "model:m": "c3"}, False),
    _alive("a purge of everything kills", {"*": "a1"}, {"*": "a2"}, False),
    _alive(
        "a purge of a tag the record doesn't have leaves it",
        {"*": "a1", "model:m": ""},
        {"*": "a1", "model:n": "b2"},
        True,
    ),
    _alive(
        "one purged tag of many kills", {"*": "a1", "x": "", "y": "1", "z": ""}, {"*": "a1", "y": "1", "z": "9"}, False
    ),
    _alive("a lost table kills all", {"*": "a1"}, {}, False),
    _alive("a table without everything is a lost one", {"*": "a1", "model:m": "b2"}, {"model:m": "b2"}, False),
    _alive("a record without everything is dead", {"model:m": ""}, {"*": "a1"}, False),
    _alive("a record without tags is dead", {}, {"*": "a1"}, False),
    _alive("a tag whose purge was forgotten kills", {"*": "a1", "model:m": "b2"}, {"*": "a1"}, False),
    _alive("a tag never purged may be told as such", {"*": "a1", "model:m": ""}, {"*": "a1", "model:m": ""}, True),
    _alive("an empty generation of everything is one like any other", {"*": ""}, {"*": ""}, True),
]

_TAGS = [
    gives(
        "a record has the tags of everything, its namespaces, model, revision and engine",
        "G1",
        "implicit_tags",
        {"namespaces": ["aa", "bb"], "model": "m", "revision": "r", "engine": "e"},
        ["*", "namespace:aa", "namespace:bb", "model:m", "revision:r", "engine:e"],
    ),
    gives(
        "a record without an engine has no engine's tag",
        "G1",
        "implicit_tags",
        {"namespaces": ["aa"], "model": "m", "revision": "r", "engine": None},
        ["*", "namespace:aa", "model:m", "revision:r"],
    ),
    gives(
        "an empty engine is none",
        "G1",
        "implicit_tags",
        {"namespaces": ["aa"], "model": "", "revision": "", "engine": ""},
        ["*", "namespace:aa", "model:", "revision:"],
    ),
    gives(
        "a caller's tag lives in its tenant's namespace",
        "G1",
        "caller_tag",
        {"tenant_namespace": "aa", "tag": "docs"},
        "tag:aa:docs",
    ),
    gives(
        "a caller's tag may hold a colon", "G1", "caller_tag", {"tenant_namespace": "aa", "tag": "a:b"}, "tag:aa:a:b"
    ),
    gives(
        "a generation lies under the digest of its tag",
        "G1",
        "generation_name",
        {"tag": "*"},
        f"foretold/1/generation/{reference.sha256(b'*')}",
    ),
    gives(
        "the generation of a model's tag",
        "G1",
        "generation_name",
        {"tag": "model:日本"},
        f"foretold/1/generation/{reference.sha256('model:日本'.encode())}",
    ),
]

_CALLERS = [
    gives(name, "G1", "is_caller_tag", {"tag": tag}, out)
    for name, tag, out in [
        ("a word is a tag", "docs", True),
        ("a tag may hold digits, dots, dashes, colons and underscores", "a1_b.c:d-e", True),
        ("a tag of 64 characters is one", "a" * 64, True),
        ("a tag of 65 characters is none", "a" * 65, False),
        ("an empty tag is none", "", False),
        ("a tag in capitals is none", "Docs", False),
        ("a tag with a space is none", "a b", False),
        ("a tag with a star is none", "*", False),
        ("a tag with a line feed at its end is none", "docs\n", False),
        ("a tag with a letter of another script is none", "caf\xe9", False),
        ("a tag with a digit of another script is none", "\u0661", False),
    ]
]

FILES = {"generations": _ALIVE + _TAGS + _CALLERS}
