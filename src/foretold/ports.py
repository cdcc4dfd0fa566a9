"""The seams: what the heart asks of stores, origins, dialects, generations and leases.

Every part behind a seam is replaceable and passes the same conformance suite (tests/conformance).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from foretold.contract.controls import NONE, Controls
from foretold.contract.generations import GENERATION_NAMES, generation_name
from foretold.errors import ForetoldError


@dataclass(frozen=True, slots=True)
class Request:
    """The head of one HTTP request, accepted by parser and guards.  Header names are in lower case; `query` is without
    `?`.
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]


class Asked(msgspec.Struct, frozen=True):
    """What a request asks, as its dialect read it.  Whose answers may serve it is not decided here.

    `path` and `query` are those under an origin's base URL; `body` is what an origin gets: the caller's bytes, less
    cache controls.  `input` is the digest of what counts (rule K4), or None where `passes` says why it has none and
    must go through uncached.  `usage` says whether the caller wants token counts, `limited` whether it limits the
    answer's length, `projection` in which other dialect's shapes or in which form the answer is told, None for its own.
    A request that asks several queries has `inputs`, the digest of each, and no `input`.
    """

    operation: str
    model: str
    method: str
    path: str
    query: str = ""
    body: bytes = b""
    form: str = "json"
    input: str | None = None
    inputs: tuple[str, ...] = ()
    passes: str | None = None
    streamed: bool = False
    usage: bool = True
    limited: bool = False
    projection: str | None = None
    controls: Controls = NONE


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What goes to an origin beside the question: the headers of rule K3, and a credential where the route passes it.

    `may_use_own` says whether the origin's own credential may go instead: not for callers who should bring theirs.
    `keep_alive_s` is how long a local model is to stay loaded afterwards, below 0 for as long as there is room.
    """

    headers: tuple[tuple[str, str], ...] = ()
    credential: tuple[str, str] | None = None
    may_use_own: bool = True
    keep_alive_s: float | None = None


class Incoming(Protocol):
    """An answer on its way from an origin.

    `headers` have lower-case names and hold what may reach a caller, without framing and hop-by-hop fields.  `length`
    is the body's, where it is known beforehand; `is_fallback` says that not the first origin of a route answered.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...

    @property
    def length(self) -> int | None: ...

    @property
    def is_fallback(self) -> bool: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body's bytes as they come, content coding removed; once only.

        Raises OriginCut if the answer breaks off and OriginTimeout if it stalls.
        """
        ...

    @property
    def is_proven(self) -> bool:
        """After the last chunk: whether framing and coding themselves told the end.

        False for a body that ends with its connection, or whose coding we can't undo: passed on, never kept.
        """
        ...

    @property
    def why_not(self) -> str | None:
        """After the last chunk: what the origin itself knows against keeping the answer, in one word."""
        ...

    async def close(self) -> None:
        """Stops the origin's work if it still runs.  Harmless when called twice."""
        ...


class Origin(Protocol):
    """Whatever makes a prediction.

    `limits_answers` says that it ends every answer at a limit of its own, which counts as given in the request.
    """

    name: str
    limits_answers: bool

    async def fetch(self, asked: Asked, forwarded: Forwarded) -> Incoming:
        """The answer once its head is here.

        Cancelling stops the origin's work.  Raises OriginError if there is no answer, Refused if this origin can't be
        asked so.
        """
        ...

    async def close(self) -> None: ...


class Put(NamedTuple):
    name: str
    blob: bytes
    keep_s: int


class Store(Protocol):
    """Keeps bytes under names; knows nothing of records or models.

    Many tasks may call at once, and cancelling is harmless.  Raises StoreError if the store failed; deadlines are the
    tier's.
    """

    name: str

    async def get(self, name: str) -> bytes | None:
        """The bytes last put under a name, whole, or None: never put, deleted, evicted, or past its `keep_s`."""
        ...

    async def put(self, name: str, blob: bytes, *, keep_s: int) -> None:
        """Keeps bytes for at most `keep_s` seconds; a bounded store may drop them sooner."""
        ...

    async def put_many(self, puts: Sequence[Put]) -> int:
        """Puts several at once, for whoever has several; how many could not be kept."""
        ...

    async def delete(self, name: str) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class NearStore(Store, Protocol):
    """A store in this process's memory or on its disk: it answers at once, without waiting for anybody."""

    def get_now(self, name: str) -> bytes | None: ...

    def scan(self) -> Iterator[str]:
        """The names held, in no order; for statistics, export and erasure."""
        ...

    @property
    def held_bytes(self) -> int: ...

    @property
    def limit_bytes(self) -> int: ...

    @property
    def largest_bytes(self) -> int:
        """The longest blob it takes; of a longer one it keeps nothing, nor what it had under that name."""
        ...


_epochs = itertools.count(1)


class Table(dict[str, str]):
    """The generations of all tags at one moment; nobody changes it.  No two have the same `epoch`.

    A tag that was purged elsewhere may be known by its name in KV alone, which is made of the tag but doesn't tell it.
    """

    __slots__ = ("_has_names", "epoch")

    def __init__(self, tags: Mapping[str, str]):
        super().__init__(tags)
        self.epoch = next(_epochs)
        self._has_names = any(tag.startswith(GENERATION_NAMES) for tag in tags)

    def get(self, tag: str, otherwise: Any = None) -> Any:
        found = super().get(tag)
        if found is None and self._has_names:
            found = super().get(generation_name(tag))
        return otherwise if found is None else found


class Generations(Protocol):
    """The generation of every tag that was ever purged (rule G1); others are never purged."""

    def now(self) -> Table:
        """All of them, including `*`; the same object until one changes."""
        ...

    def look(self) -> None:
        """Makes sure that `now` knows what other processes have renewed."""
        ...

    async def renew(self, tags: Iterable[str]) -> None:
        """A new random value for each tag, safe on disk when this returns."""
        ...

    async def open(self) -> None:
        """Begins to follow what is purged on other machines, if that is known at all."""
        ...

    async def close(self) -> None: ...


class Dialect(Protocol):
    """A wire protocol clients speak."""

    def read(self, request: Request, body: bytes, controls: Controls) -> Asked:
        """What a request asks.  Raises Refused."""
        ...

    def tell(self, error: ForetoldError) -> tuple[str, bytes]:
        """An error in the dialect's own shape: content type and body."""
        ...
