"""What a GGUF file says of itself, read from its first bytes in milliseconds.

The bytes come from anywhere: every count is held against the size of the file before anything is made of it, and
nothing is read that the file cannot hold.  A header that is sound is no proof of a sound file: that is its digest's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from foretold.errors import ModelError

LONGEST_HEADER = 64 * 2**20
FIRST_BYTES = 2 * 2**20
_MOST_ENTRIES = 65_536
_MOST_TENSORS = 100_000
_LONGEST_NAME = 65_535
_LONGEST_TEXT = 2**20
_LONGEST_LIST = 4096
_LARGEST_ALIGNMENT = 2**16
_MOST_DIMENSIONS = 4

# Numbers of fixed width, by their GGUF type.
_NUMBERS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_TEXT, _LIST = 8, 9
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

# Of a tensor type, values in a block and bytes of it.  A type that is not here is newer than this table.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip


class BadGguf(ModelError):
    """Not a GGUF file, or one that contradicts itself."""


class NeedsMore(Exception):
    """The header goes on beyond the bytes that were given; `least_bytes` of the file are needed."""

    def __init__(self, least_bytes: int):
        super().__init__(least_bytes)
        self.least_bytes = least_bytes


class Elided(NamedTuple):
    """A text or a list that was passed over because of its length."""

    length: int


@dataclass(frozen=True, slots=True)
class Header:
    """`values` are its entries by name: numbers, texts, lists as tuples; of long ones only how long they are.

    `length` counts the bytes up to the first tensor's data, `data_bytes` what the tensors take from there.
    """

    version: int
    values: Mapping[str, Any]
    tensors: int
    length: int
    data_bytes: int

    @property
    def architecture(self) -> str:
        return str(self.values.get("general.architecture", ""))

    def own(self, name: str) -> Any:
        """An entry that is named after the architecture, such as `llama.context_length`."""
        return self.values.get(f"{self.architecture}.{name}")

    @property
    def part(self) -> int:
        """Which of several files this is, from 0."""
        return int(self.values.get("split.no", 0))

    @property
    def parts(self) -> int:
        return int(self.values.get("split.count", 0)) or 1


def read_header(start: bytes, size_bytes: int) -> Header:
    """The header of a file of that size which begins with these bytes.

    Raises NeedsMore if they end before the header does, BadGguf if no file of that size can begin so.
    """
    at = _Cursor(start, size_bytes)
    magic = at.take(4)
    if magic != b"GGUF":
        raise BadGguf(f"it begins with {magic!r} instead of b'GGUF': only GGUF files can be run")
    version = at.number(_U32)
    if version not in (2, 3):
        big = "; this one is big-endian" if version in (2 << 24, 3 << 24) else ""
        raise BadGguf(f"its GGUF version is {version}, known are 2 and 3{big}: convert the model anew")
    tensors = at.count("tensors", least_bytes=24, most=_MOST_TENSORS)
    entries = at.count("entries", least_bytes=13, most=_MOST_ENTRIES)
    values: dict[str, Any] = {}
    for _ in range(entries):
        name = at.name("entry")
        if name in values:
            raise BadGguf(f"its entry {name!r} stands there twice")
        values[name] = _value(at, name)
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= _LARGEST_ALIGNMENT or alignment & (alignment - 1):
        raise BadGguf(f"its alignment is {alignment!r}: wanted is a power of two up to {_LARGEST_ALIGNMENT}")
    data_bytes = max((_tensor_end(at, alignment) for _ in range(tensors)), default=0)
    length = -(-at.position // alignment) * alignment
    if tensors and length + data_bytes > size_bytes:
        raise BadGguf(f"its tensors end at byte {length + data_bytes:,}, and it has {size_bytes:,}: it was cut off")
    _check_known(values)
    return Header(version, values, tensors, length, data_bytes)


def _value(at: _Cursor, name: str) -> Any:
    kind = at.number(_U32)
    if kind in _NUMBERS:
        return at.number(_NUMBERS[kind])
    if kind == _TEXT:
        return at.text()
    if kind != _LIST:
        raise BadGguf(f"its entry {name!r} has the unknown type {kind}")
    inner = at.number(_U32)
    if inner in _NUMBERS:
        number = _NUMBERS[inner]
        count = at.count(f"values in {name!r}", least_bytes=number.size)
        if count > _LONGEST_LIST:
            at.skip(count * number.size)
            return Elided(count)
        return tuple(at.number(number) for _ in range(count))
    if inner != _TEXT:
        raise BadGguf(f"its entry {name!r} is a list of type {inner}: numbers and texts are possible")
    count = at.count(f"texts in {name!r}", least_bytes=8)
    if count > _LONGEST_LIST:
        at.skip_texts(count)
        return Elided(count)
    return tuple(at.text() for _ in range(count))


def _tensor_end(at: _Cursor, alignment: int) -> int:
    """Where a tensor's data ends, counted from where data begins."""
    name = at.name("tensor")
    dimensions = at.number(_U32)
    if dimensions > _MOST_DIMENSIONS:
        raise BadGguf(f"its tensor {name!r} has {dimensions} dimensions: {_MOST_DIMENSIONS} are the most")
    values = 1
    for _ in range(dimensions):
        values *= at.number(_U64)
    kind, offset = at.number(_U32), at.number(_U64)
    if offset % alignment:
        raise BadGguf(f"its tensor {name!r} begins at byte {offset}, which is no multiple of {alignment}")
    in_block, block_bytes = _BLOCKS.get(kind, (1, 0))
    end: int = offset + -(-values // in_block) * block_bytes
    return end


def _check_known(values: Mapping[str, Any]) -> None:
    """What is used below must be of the kind it is used as."""
    for name, wanted in (
        ("general.architecture", str),
        ("general.license", str),
        ("general.name", str),
        ("tokenizer.chat_template", str),
        ("split.no", int),
        ("split.count", int),
    ):
        if name in values and type(values[name]) is not wanted:
            raise BadGguf(f"its entry {name!r} is no {'text' if wanted is str else 'whole number'}")
    parts, part = values.get("split.count", 0) or 1, values.get("split.no", 0)
    if not 0 <= part < parts:
        raise BadGguf(f"it says that it is part {part} of {parts}")


class _Cursor:
    """A place in the first bytes of a file."""

    def __init__(self, start: bytes, size_bytes: int):
        self._start = start
        self._size_bytes = size_bytes
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self._reach(count)
        taken = self._start[self.position : end]
        self.position = end
        return taken

    def skip(self, count: int) -> None:
        self.position = self._reach(count)

    def number(self, form: struct.Struct) -> Any:
        end = self._reach(form.size)
        value = form.unpack_from(self._start, self.position)[0]
        self.position = end
        return value

    def count(self, what: str, *, least_bytes: int, most: int | None = None) -> int:
        """How many of something follow, each of which takes so many bytes at least."""
        count: int = self.number(_U64)
        if (most is not None and count > most) or count * least_bytes > self._size_bytes - self.position:
            raise BadGguf(f"it says that it has {count:,} {what}, which its {self._size_bytes:,} bytes cannot hold")
        return count

    def name(self, what: str) -> str:
        length: int = self.number(_U64)
        if length > _LONGEST_NAME:
            raise BadGguf(f"a name of its {what} has {length:,} bytes: {_LONGEST_NAME:,} are the most")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise BadGguf(f"a name of its {what} is not UTF-8") from None

    def text(self) -> str | Elided:
        length: int = self.number(_U64)
        if length > _LONGEST_TEXT:
            self.skip(length)
            return Elided(length)
        return self.take(length).decode(errors="replace")

    def skip_texts(self, count: int) -> None:
        start, at, end, unpack = self._start, self.position, len(self._start), _U64.unpack_from
        for _ in range(count):
            if at + 8 > end:
                self._lacks(at + 8)
            at += 8 + unpack(start, at)[0]
            if at > end:
                self._lacks(at)
        self.position = at

    def _reach(self, count: int) -> int:
        """Where we are after so many bytes more."""
        end = self.position + count
        if end > len(self._start):
            self._lacks(end)
        return end

    def _lacks(self, end: int) -> NoReturn:
        if end > self._size_bytes:
            raise BadGguf(f"it ends within its header, at byte {self._size_bytes:,}: it was cut off, or is damaged")
        if end > LONGEST_HEADER:
            raise BadGguf(f"its header is longer than {LONGEST_HEADER // 2**20} MiB: no model needs that")
        raise NeedsMore(end)
