"""Random JSON texts of every awkward kind, some of them broken: bytes, since not all are UTF-8."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

_NAMES = [
    "",
    "a",
    "b",
    "A",
    "aa",
    "10",
    "9",
    "1",
    "model",
    "user",
    "__proto__",
    "constructor",
    "length",
    "a:b",
    ":",
    "\\",
    '"',
]
_CHARACTERS = [
    *"abcXYZ019 :,{}[]/'\"\\<>&",
    *"\0\x01\b\t\n\x0b\f\r\x1f\x7f\x80\x9f",
    *"\xa0éßÅ\u0301\u200b\u2028\u2029\u3042日\ud7ff",
    *"\ue000\uf8ff\ufb33\ufeff\ufffd\uffff",
    *"\U00010000\U0001f600\U0001f926\U000e0001\U0010ffff",
]
_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPACES = ["", "", "", "", " ", "\n", "\t", "\r\n", "  "]
_EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 10**15, 10**16, 10**21]
_NUMERALS = [
    *("0", "-0", "0.0", "-0.0", "0e0", "-0e-5", "1.0", "10e-1", "1E5", "1e+2", "1.50", "0.000001234", "1e15", "9e15"),
    *("1e-5", "9.99e-6", "1e-6", "1.5e-6", "1e-7", "5e-324", "2e-324", "3e-324", "1e-400", "2.2250738585072011e-308"),
    *("0.1000000000000000055", "333333333.33333329", "4503599627370495.5", "9007199254740991.4"),
    *("9007199254740991.5", "1e16", "1e21", "1e308", "1e400", "-1e400", "123456789012345678901234567890"),
]


def random_texts(seed: int, count: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        text = Writer(chance).document().encode()
        yield _broken(chance, text) if chance.random() < 0.06 else text


class Writer:
    """Writes one text.  Only a few texts may hold what makes a text unkeyable, or most would be."""

    def __init__(self, chance: random.Random):
        self._chance = chance
        self._may_repeat, self._may_be_lone, self._may_be_large = (chance.random() < 0.12 for _ in range(3))

    def document(self) -> str:
        return self.space() + self.value(self._chance.choice([1, 2, 3, 5])) + self.space()

    def value(self, depth: int) -> str:
        kind = self._chance.choice("oooaasnl" if depth else "snl")
        match kind:
            case "s":
                return self.text(self._characters())
            case "n":
                return self.number()
            case "o":
                return self._object(depth - 1)
            case "a":
                return self._list(depth - 1)
        return self._chance.choice(["true", "false", "null"])

    def _object(self, depth: int) -> str:
        names = [self.name() for _ in range(self._chance.choice([0, 1, 2, 3, 6]))]
        names = list(dict.fromkeys(names))
        if names and self._may_repeat and self._chance.random() < 0.5:
            names.insert(self._chance.randrange(len(names) + 1), self._chance.choice(names))
        members = [f"{self.space()}{self.text(name)}{self.space()}:{self.space()}{self.value(depth)}" for name in names]
        return "{" + (",".join(members) or self.space()) + self.space() + "}"

    def _list(self, depth: int) -> str:
        items = [self.space() + self.value(depth) for _ in range(self._chance.choice([0, 1, 2, 4]))]
        return "[" + (",".join(items) or self.space()) + self.space() + "]"

    def name(self) -> str:
        return self._chance.choice(_NAMES) if self._chance.random() < 0.5 else self._characters()

    def _characters(self) -> str:
        return "".join(self._chance.choice(_CHARACTERS) for _ in range(self._chance.choice([0, 1, 2, 3, 8])))

    def text(self, characters: str) -> str:
        written = [self._character(c) for c in characters]
        if self._may_be_lone and self._chance.random() < 0.3:
            lone = self._chance.choice(["\\ud800", "\\uDBFF", "\\udc00", "\\uDFFF", "\\ude00\\ud83d", "\\ud83d\\ud83d"])
            written.insert(self._chance.randrange(len(written) + 1), lone)
        return '"' + "".join(written) + '"'

    def _character(self, c: str) -> str:
        needs_escape = c in '"\\' or c < " "
        if c in _SHORT and self._chance.random() < 0.5:
            return _SHORT[c]
        if needs_escape or self._chance.random() < 0.15:
            units = c.encode("utf-16-be")
            form = self._chance.choice(["\\u{:04x}", "\\u{:04X}"])
            return "".join(form.format(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
        return c

    def number(self) -> str:
        numeral = self._any_number()
        is_large = abs(float(numeral)) > 2**53 - 1
        return "7" if is_large and not self._may_be_large else numeral

    def _any_number(self) -> str:
        match self._chance.randrange(6):
            case 0:
                return self._chance.choice(_NUMERALS)
            case 1:
                return str(self._chance.choice([1, -1]) * (self._chance.choice(_EDGES) + self._chance.randint(-3, 3)))
            case 2:
                return str(self._chance.randint(-1000, 1000))
            case 3:
                return repr(self._chance.uniform(-1e6, 1e6))
            case 4:
                exponent = self._chance.randint(-330, 20)
                return f"{self._chance.randint(-99999, 99999)}.{self._chance.randint(0, 99999):05d}e{exponent}"
        (double,) = struct.unpack("<d", self._chance.randbytes(8))
        return "1.5" if double != double or double in (float("inf"), float("-inf")) else repr(double)

    def space(self) -> str:
        return self._chance.choice(_SPACES)


def _broken(chance: random.Random, text: bytes) -> bytes:
    """The text with one byte gone, put in or changed, or cut: mostly no JSON any more."""
    at = chance.randrange(len(text) + 1)
    other = bytes([chance.choice(b'\0\x0b "\\,:[]{}0.-eEuN\x80\xc3\xed\xff')])
    return chance.choice(
        [text[:at] + text[at + 1 :], text[:at] + other + text[at:], text[:at] + other + text[at + 1 :], text[:at]]
    )
