"""Random answers of chat and text completions as origins tell them, whole and in events, some of them none."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

from tests.contract.random_texts import Writer

_WORDS = [
    *("Hello", "world,", "the", "answer", "is", "42.", "3.14", "naïve", "x" * 70, "https://example.org/a?b=c#d"),
    *("Xin", "chào,", "tiếng", "Việt", "sông", "Hồng.", "e\u0302\u0301", "สวัสดีครับ", "แม่น้ำเจ้าพระยา", "日本語の文"),
    *(
        "🙂",
        "👩‍👩‍👧‍👦",
        "🇻🇳",
        "𝔘𝔫𝔦",
        "🙂" * 66,
        '"quoted"',
        "\\back",
        "</b>",
        "\x7f",
        "\u2028",
        "\ufeff",
        "{",
        "data: x",
    ),
]
_GAPS = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "", "\xa0", "\u3000"]
_IDS = ["call_abcdefghijklmnopqrstuvwx", "toolu_01A", "chatcmpl-tool-9f86d081884c7d65", "123456789", "", "вызов_🙂🙂🙂"]
_NAMES = ["get", "get", "get_weather", ""]
_FINISHES = ["stop", "length", "tool_calls", "function_call", "content_filter"]
_ENDS = ["\n\n", "\n\n", "\n\n", "\n\n", "\r\n\r\n", "\r\r", "\n\r\n"]

_LINE = re.compile(r"\r\n|\n|\r")

Members = list[tuple[str, str]]


class Answers:
    """Writes one answer: JSON as texts, for numbers and names must come in every spelling."""

    def __init__(self, chance: random.Random):
        self._chance = chance
        self._json = Writer(chance)
        self._is_odd = chance.random() < 0.15

    def whole(self, operation: str) -> bytes:
        count = self._chance.choice([1, 1, 1, 2, 3])
        choices = [self._choice(operation, at) for at in range(count)]
        members = [*self._head(), ("choices", self._list(choices)), *self._some(usage=self._usage())]
        return self._object(members).encode()

    def transcript(self, operation: str) -> bytes:
        count = self._chance.choice([1, 1, 1, 2, 3])
        parts = [part for at in range(count) for part in self._parts(operation, at)]
        if self._rarely():
            self._chance.shuffle(parts)
        told = [self._event([*self._head(), ("choices", self._list([part])), *self._no_usage()]) for part in parts]
        if self._chance.random() < 0.5:
            told.append(self._event([*self._head(), ("choices", self._list([])), ("usage", self._usage())]))
        told.append(f"data: [DONE]{self._chance.choice(_ENDS)}")
        return "".join(told).encode()

    def _event(self, members: Members) -> str:
        before = self._chance.choice(
            ["", "", "", "", ": ping\n\n", "event: x\n", "id: 7\n", "\ufeff", "\n", "retry: 1\r"]
        )
        data = self._object(members)
        if "\n" in data or "\r" in data:
            data = "\ndata: ".join(_LINE.split(data))
        return f"{before}data:{self._chance.choice(['', ' ', ' '])}{data}{self._chance.choice(_ENDS)}"

    def _head(self) -> Members:
        head = [
            ("id", self._text(_IDS)),
            ("object", self._text(["chat.completion.chunk"])),
            ("created", self._number()),
        ]
        fingerprints = self._chance.choice(["null", self._text(["fp_1", "fp_2"])])
        tiers = self._some(system_fingerprint=fingerprints, service_tier=self._text(["default", "flex"]))
        return [*head, ("model", self._text(["m", "gpt-4.1"])), *tiers, *self._unknown()]

    def _usage(self) -> str:
        return self._object([("total_tokens", self._number()), *self._unknown()])

    def _no_usage(self) -> Members:
        return [("usage", "null")] if self._chance.random() < 0.2 else []

    def _choice(self, operation: str, at: int) -> str:
        if operation == "completion":
            return self._object([*self._index(at), ("text", self._speech()), *self._end()])
        calls = [self._call(self._arguments()) for _ in range(self._chance.choice([1, 2]))]
        message = [
            ("role", self._text(["assistant"])),
            (
                "content",
                self._chance.choice(["null", self._speech(), self._speech(), self._list([self._json.value(2)])]),
            ),
            *self._some(refusal=self._speech(), reasoning=self._speech(), reasoning_content=self._speech()),
            *self._some(tool_calls=self._list(calls), audio=self._object([("id", self._text(_IDS)), *self._unknown()])),
            *self._some(function_call=self._object([("name", self._text(["f"])), ("arguments", self._arguments())])),
            *self._unknown(),
        ]
        return self._object([*self._index(at), ("message", self._object(message)), *self._end()])

    def _parts(self, operation: str, at: int) -> Iterator[str]:
        """The pieces of one choice, cut as no unfolding of ours cuts."""
        if operation == "completion":
            for _ in range(self._chance.randrange(4)):
                yield self._object([*self._index(at), ("text", self._speech()), *self._some(finish_reason="null")])
            yield self._object([*self._index(at), *self._end()])
            return
        for delta in [self._opening(), *self._spoken(), *self._calling(), self._closing()]:
            told = ("delta", self._object(delta))
            yield self._object([*self._index(at), told, *self._some(logprobs=self._logprobs())])
        yield self._object([*self._index(at), ("delta", self._object([])), *self._end()])

    def _opening(self) -> Members:
        return [("role", self._text(["assistant", "tool", ""])), ("content", '""')]

    def _spoken(self) -> Iterator[Members]:
        for name in self._chance.choices(["content", "content", "reasoning", "refusal"], k=self._chance.randrange(5)):
            yield [(name, self._speech()), *self._unknown()]

    def _calling(self) -> Iterator[Members]:
        for place in range(self._chance.choice([0, 0, 1, 2])):
            index = ("index", self._chance.choice([str(place)] * 8 + ["null", "1.0", "9007199254740993"]))
            more = range(self._chance.randrange(3))
            pieces = [self._call(self._arguments(), index), *(self._piece_of_call(index) for _ in more)]
            count = self._chance.choice([1, 1, 2])
            for first in range(0, len(pieces), count):
                yield [("tool_calls", self._list(pieces[first : first + count]))]

    def _closing(self) -> Members:
        role = self._chance.choice(["null", '"assistant"'])
        return [("role", role), *self._some(content="null"), *self._unknown()]

    def _call(self, arguments: str, *more: tuple[str, str]) -> str:
        function = self._object([("name", self._text(_NAMES)), ("arguments", arguments), *self._unknown()])
        id_ = self._number() if self._rarely() else self._text(_IDS)
        return self._object([*more, ("id", id_), ("type", self._text(["function"])), ("function", function)])

    def _piece_of_call(self, index: tuple[str, str]) -> str:
        function = self._object([*self._some(name=self._text(_NAMES)), ("arguments", self._arguments())])
        return self._object([index, *self._some(id=self._text(_IDS)), ("function", function)])

    def _arguments(self) -> str:
        return self._told('{"place": ' + self._chance.choice(_WORDS) + "}")

    def _index(self, at: int) -> Members:
        if self._rarely():
            return self._some(index=self._chance.choice(["null", "-0", "1.0", '"0"', "true", "-1", self._number()]))
        return [] if at == 0 and self._chance.random() < 0.1 else [("index", str(at))]

    def _end(self) -> Members:
        finish = [("finish_reason", self._chance.choice(["null", self._text(_FINISHES)]))]
        return [*finish, *self._some(logprobs=self._logprobs()), *self._unknown()]

    def _logprobs(self) -> str:
        tokens = [self._object([("token", self._text(_WORDS)), ("logprob", self._number())]) for _ in range(2)]
        return self._chance.choice(["null", self._object([("content", self._list(tokens))])])

    def _speech(self) -> str:
        words = [
            self._chance.choice(_WORDS) + self._chance.choice(_GAPS) for _ in range(self._chance.choice([0, 1, 4, 9]))
        ]
        return self._told("".join(words))

    def _text(self, choices: list[str]) -> str:
        return self._told(self._chance.choice(choices))

    def _name(self, name: str) -> str:
        return self._json.text(name) if self._chance.random() < 0.01 else json.dumps(name, ensure_ascii=False)

    def _told(self, text: str) -> str:
        """The text as JSON: as most origins write it, now and then with escapes where none need be."""
        match self._chance.randrange(10):
            case 0:
                return self._json.text(text)
            case 1 | 2:
                return json.dumps(text)
        return json.dumps(text, ensure_ascii=False)

    def _number(self) -> str:
        return self._json.number()

    def _unknown(self) -> Members:
        if self._chance.random() < 0.7:
            return []
        return [(self._json.name(), self._json.value(2)) for _ in range(self._chance.choice([1, 2]))]

    def _some(self, **members: str) -> Members:
        return [(name, value) for name, value in members.items() if self._chance.random() < 0.3]

    def _object(self, members: Members) -> str:
        """An object; in an odd answer a member may be something else than it should."""
        if self._rarely():
            members = [(name, self._json.value(1) if self._chance.random() < 0.1 else value) for name, value in members]
        if self._chance.random() < 0.1:
            self._chance.shuffle(members)
        space = self._json.space()
        return "{" + f",{space}".join(f"{self._name(name)}:{space}{value}" for name, value in members) + "}"

    def _list(self, items: list[str]) -> str:
        return "[" + ",".join(items) + "]"

    def _rarely(self) -> bool:
        return self._is_odd and self._chance.random() < 0.1


def random_answers(seed: int, count: int) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Answers as (operation, shape, body, randomness)."""
    chance = random.Random(seed)
    for _ in range(count):
        operation, shape = chance.choice(["chat", "chat", "completion"]), chance.choice(["whole", "events"])
        answers = Answers(chance)
        body = answers.whole(operation) if shape == "whole" else answers.transcript(operation)
        yield operation, shape, body, chance.randbytes(16)
