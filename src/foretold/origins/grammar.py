"""Which grammars (GBNF) a local engine may be held to.

The engine keeps every way in which a text so far may go on, and tries each token against each of them, in native code
while all slots wait.  Rules that call themselves make those ways as many as two to the power of the length, and a few
dozen optional classes side by side were seen to take it seconds a token.  So a grammar is read here first: no rule
calls itself, and what it comes to with every rule written out is bounded.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from foretold.origins.refusing import bad_value

LONGEST = 8 * 1024
DEEPEST = 16
MOST_REPEATS = 256
MOST_ITEMS = 1000
# Classes of characters that may be open side by side, and places that may stay empty: each costs milliseconds a token.
MOST_OPEN_CLASSES = 12
MOST_OPTIONAL = 24

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)|(?P<define>[a-zA-Z][a-zA-Z0-9-]*[ \t]*::=)|(?P<name>[a-zA-Z][a-zA-Z0-9-]*)
    |(?P<text>"(?:[^"\\\n]|\\.)+")|(?P<class>\[(?:[^\]\\\n]|\\.)+\]|\.)
    |(?P<repeat>[*+?]|\{[ ]*[0-9]{1,4}[ ]*(?:,[ ]*(?:[0-9]{1,4})?[ ]*)?\})|(?P<mark>[|()])""",
    re.VERBOSE,
)
_BOUNDS = re.compile(r"\{ *([0-9]+) *(?:(,) *([0-9]+)? *)?\}")
_WANTED = "a grammar in GBNF"


class _Token(NamedTuple):
    kind: str
    text: str


class _Cost(NamedTuple):
    """What a part comes to with all rules written out: its items, its classes, those of them that others may stand
    beside, and its places that may stay empty.
    """

    items: int = 0
    classes: int = 0
    open_classes: int = 0
    optional: int = 0

    def __add__(self, other: Any) -> _Cost:
        return _Cost(*(one + another for one, another in zip(self, other, strict=True)))

    def __mul__(self, times: Any) -> _Cost:
        return _Cost(*(one * times for one in self))


def checked(name: str, value: Any) -> str:
    """The grammar itself, if the engine can be held to it."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST:
        raise bad_value(name, value, f"{_WANTED} of 1 to {LONGEST} characters")
    rules = _rules(name, value)
    if "root" not in rules:
        raise bad_value(name, value, f"{_WANTED} with a rule `root`")
    cost = _Reader(name, value, rules).rule("root", depth=0)
    if cost.open_classes > MOST_OPEN_CLASSES:
        raise bad_value(
            name,
            value,
            f"{_WANTED} with at most {MOST_OPEN_CLASSES} optional, repeated or alternative classes of characters, rules"
            f" written out: it has {cost.open_classes}",
        )
    if cost.optional > MOST_OPTIONAL:
        raise bad_value(
            name,
            value,
            f"{_WANTED} with at most {MOST_OPTIONAL} optional parts, rules written out: it has {cost.optional}",
        )
    return value


def _rules(name: str, value: str) -> dict[str, list[_Token]]:
    rules: dict[str, list[_Token]] = {}
    here: list[_Token] | None = None
    at = 0
    while at < len(value):
        found = _TOKEN.match(value, at)
        if found is None:
            line = value.count("\n", 0, at) + 1
            raise bad_value(name, value, f"{_WANTED}; line {line} can't be read")
        at = found.end()
        kind = found.lastgroup or ""
        if kind == "define":
            rule = found[0][:-3].strip()
            if rule in rules:
                raise bad_value(name, value, f"{_WANTED}; rule `{rule}` stands there twice")
            here = rules[rule] = []
        elif kind != "space":
            if here is None:
                raise bad_value(name, value, f"{_WANTED}, which begins with a rule such as `root ::= …`")
            here.append(_Token(kind, found[0]))
    return rules


class _Reader:
    """Reads rules as often as they are called, and adds up what they come to."""

    def __init__(self, name: str, value: str, rules: dict[str, list[_Token]]):
        self._name = name
        self._value = value
        self._rules = rules
        self._known: dict[str, _Cost] = {}
        self._open: list[str] = []

    def rule(self, rule: str, *, depth: int) -> _Cost:
        if rule in self._known:
            return self._known[rule]
        if rule in self._open:
            raise self._bad(f"; rule `{rule}` calls itself, use * + or {{m,n}}")
        if rule not in self._rules:
            raise self._bad(f"; rule `{rule}` is nowhere written")
        self._open.append(rule)
        tokens = list(reversed(self._rules[rule]))
        cost = self._ways(tokens, depth=depth)
        if tokens:
            raise self._bad(f"; rule `{rule}` has a `)` too many")
        self._open.pop()
        self._known[rule] = cost
        return cost

    def _ways(self, tokens: list[_Token], *, depth: int) -> _Cost:
        """Alternatives up to a closing bracket or the end; `tokens` are those still to come, the next one last."""
        if depth > DEEPEST:
            raise self._bad(f" nested no deeper than {DEEPEST}")
        ways = [self._sequence(tokens, depth=depth)]
        while tokens and tokens[-1].text == "|":
            tokens.pop()
            ways.append(self._sequence(tokens, depth=depth))
        cost = _Cost()
        for way in ways:
            cost += way
        if len(ways) > 1:
            empty = sum(way.items == 0 for way in ways)
            cost = cost._replace(open_classes=cost.classes, optional=cost.optional + empty)
        return self._bounded(cost)

    def _sequence(self, tokens: list[_Token], *, depth: int) -> _Cost:
        cost = _Cost()
        while tokens and tokens[-1].text not in ("|", ")"):
            cost += self._item(tokens, depth=depth)
        return self._bounded(cost)

    def _item(self, tokens: list[_Token], *, depth: int) -> _Cost:
        token = tokens.pop()
        if token.kind == "repeat":
            raise self._bad(f"; `{token.text}` stands behind nothing")
        if token.text == "(":
            cost = self._ways(tokens, depth=depth + 1)
            if not tokens:
                raise self._bad("; a `(` has no end")
            tokens.pop()
        elif token.kind == "name":
            cost = self.rule(token.text, depth=depth + 1)
        else:
            cost = _Cost(1, int(token.kind == "class"))
        while tokens and tokens[-1].kind == "repeat":
            cost = self._repeated(cost, tokens.pop().text)
        return cost

    def _repeated(self, cost: _Cost, repeat: str) -> _Cost:
        bounds = _BOUNDS.fullmatch(repeat)
        if bounds is None:
            return cost._replace(open_classes=cost.classes, optional=cost.optional + 1)
        least = int(bounds[1])
        most = least if bounds[2] is None else int(bounds[3]) if bounds[3] is not None else least + 1
        if most > MOST_REPEATS or most < least or most < 1:
            raise self._bad(f"; `{repeat}` must count up to 1 to {MOST_REPEATS}")
        repeated = cost * most
        if most > least:
            repeated = repeated._replace(open_classes=repeated.classes, optional=repeated.optional + 1)
        return self._bounded(repeated)

    def _bounded(self, cost: _Cost) -> _Cost:
        if cost.items > MOST_ITEMS:
            raise self._bad(f" of at most {MOST_ITEMS} items, rules and repeats written out")
        return cost

    def _bad(self, wanted: str) -> Exception:
        return bad_value(self._name, self._value, _WANTED + wanted)
