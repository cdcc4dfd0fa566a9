"""Records of a node pushed to the KV that edges share: which ones, and on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from foretold.config.settings import RouteSettings
from foretold.contract.freshness import Verdict, judge, kv_expiration_s
from foretold.contract.generations import is_alive
from foretold.contract.key import record_name
from foretold.contract.record import Record, open_sealed
from foretold.errors import EdgeError, RecordCorrupt, StoreError
from foretold.patterns import matches
from foretold.ports import Table
from foretold.stores.cloudflare.api import LARGEST_BYTES, KvApi, Value
from foretold.tiers.held import lifetimes_of

# A call has room for more: but what it holds must be read, encoded and sent within its time.
_BATCH_RECORDS = 500
_BATCH_BYTES = 16 * 2**20

ORDERS: dict[str, Callable[[Pick], int]] = {
    "newest": lambda pick: -pick.made_ms,
    "slowest": lambda pick: -pick.took_ms,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records: all that is given must hold; `tags` are whole, as records have them; `models` may be patterns."""

    models: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    route: RouteSettings | None = None
    order: str = "newest"
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class Pick:
    """One record that goes, by the name that the node's store has for it."""

    stored_as: str
    name: str
    made_ms: int
    took_ms: int
    blob_bytes: int


@dataclass(slots=True)
class Chosen:
    """What was found: those that go in their order, and why others don't."""

    picks: list[Pick] = field(default_factory=list)
    matched: int = 0
    dead: int = 0
    purged: int = 0
    unreadable: int = 0

    @property
    def blob_bytes(self) -> int:
        return sum(pick.blob_bytes for pick in self.picks)


@dataclass(slots=True)
class Pushed:
    records: int = 0
    blob_bytes: int = 0
    refused: int = 0
    gone: int = 0


def choose(
    names: Iterable[str],
    read: Callable[[str], bytes | None],
    choice: Choice,
    *,
    secret: bytes,
    table: Table,
    now_ms: int,
) -> Chosen:
    """`read` gives the blob under a name and may raise StoreError; `table` are the generations of now."""
    found = Chosen()
    for name in names:
        try:
            blob = read(name)
            record = None if blob is None else open_sealed(blob, secret)
        except (StoreError, RecordCorrupt):
            found.unreadable += 1
            continue
        if blob is None or record is None or record.kind != "answer" or not _is_wanted(record, choice):
            continue
        found.matched += 1
        if judge(record.made_ms, lifetimes_of(record), now_ms).verdict is Verdict.DEAD:
            found.dead += 1
        elif not is_alive(record.tags, table):
            found.purged += 1
        else:
            kv_name = record_name(record.namespace, record.key)
            found.picks.append(Pick(name, kv_name, record.made_ms, record.took_ms, len(blob)))
    found.picks = sorted(found.picks, key=ORDERS[choice.order])[: choice.limit]
    return found


async def push(
    picks: Sequence[Pick],
    read: Callable[[str], bytes | None],
    api: KvApi,
    *,
    secret: bytes,
    now_ms: Callable[[], int],
    tell: Callable[[int, int], None],
) -> Pushed:
    """Writes them to KV in their order, each with its own end; `tell` is told bytes done and bytes in all.

    Raises EdgeError if KV fails: what was pushed before stays there.
    """
    done = Pushed()
    total_bytes = sum(pick.blob_bytes for pick in picks)
    behind = 0
    for batch in _batches(picks):
        values = [value for pick in batch if (value := _value(pick, read, secret, now_ms())) is not None]
        done.gone += len(batch) - len(values)
        try:
            refused = await api.put_all(values) if values else set()
        except StoreError as e:
            raise EdgeError(f"{done.records} of {len(picks)} records are pushed, then {e}: run this again") from None
        taken = [value for value in values if value.name not in refused]
        done.records += len(taken)
        done.blob_bytes += sum(len(value.content) for value in taken)
        done.refused += len(values) - len(taken)
        behind += sum(pick.blob_bytes for pick in batch)
        tell(behind, total_bytes)
    return done


def _is_wanted(record: Record, choice: Choice) -> bool:
    if choice.models and not any(matches(record.model, pattern) for pattern in choice.models):
        return False
    if not all(tag in record.tags for tag in choice.tags):
        return False
    return choice.route is None or _is_of(record, choice.route)


def _is_of(record: Record, route: RouteSettings) -> bool:
    """Whether a route makes such records: those of a model of the node by its name, others by their revision."""
    if route.model:
        return record.model == route.model
    if record.revision != (route.revision or route.name):
        return False
    kind, _, path = record.operation.partition(" ")
    return not path if route.kind == "model" else kind == route.kind and matches(path, route.path)


def _value(pick: Pick, read: Callable[[str], bytes | None], secret: bytes, now_ms: int) -> Value | None:
    """The record as it is now; None if it is gone, died, or KV takes none so long."""
    try:
        blob = read(pick.stored_as)
        record = None if blob is None else open_sealed(blob, secret)
    except (StoreError, RecordCorrupt):
        return None
    if blob is None or record is None or len(blob) > LARGEST_BYTES:
        return None
    judged = judge(record.made_ms, lifetimes_of(record), now_ms)
    if judged.verdict is Verdict.DEAD or record_name(record.namespace, record.key) != pick.name:
        return None
    return Value(pick.name, blob, kv_expiration_s(judged, lifetimes_of(record)))


def _batches(picks: Sequence[Pick]) -> Iterable[Sequence[Pick]]:
    batch: list[Pick] = []
    size = 0
    for pick in picks:
        if batch and (len(batch) >= _BATCH_RECORDS or size + pick.blob_bytes > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(pick)
        size += pick.blob_bytes
    if batch:
        yield batch
