"""Objects of a store by name: the only place that speaks to one, and that knows the library for it.

What a store says is told in our words: its own texts carry endpoints, paths and requests.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretold import __version__
from foretold.errors import LibraryError, LibraryForbidden, LibraryUnreachable, NotInLibrary
from foretold.models.library.access import Access, Patience
from foretold.models.library.address import Address
from foretold.models.library.trust import INSTALL

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PIECE_BYTES = 2**20
PART_BYTES = 8 * 2**20
# Stores take 10,000 parts of an object at most.
_MOST_PARTS = 9000
_PUTS_AT_ONCE = 4
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_CAUSES = (
    (re.compile(r"No space left|os error 28|Disk quota|os error 122"), "there is no room left"),
    (re.compile(r"onnection refused|os error 111"), "nobody listens there"),
    (re.compile(r"dns error|failed to lookup"), "its name is not known"),
    (re.compile(r"certificate|tls handshake|TLS", re.I), "the secure connection failed"),
    (re.compile(r"timed out|timeout|TimedOut", re.I), "it gave no answer in time"),
    (re.compile(r"onnection (closed|reset)|IncompleteMessage|decoding response|incomplete|unexpected EOF|os error 104",
                re.I), "the connection broke off"),
    (re.compile(r"Requested \d+\.\.\d+, got"), "it gave other bytes than were asked for"),
    (re.compile(r"NotPartial|partial", re.I), "it gave the whole object where a part was asked for"),
)  # fmt: skip


class Replaced(LibraryError):
    """The object is not the one that was seen before."""


class Interrupted(LibraryUnreachable):
    """It broke off in the middle: worth going on from where it stopped."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a store says of an object; `etag` changes whenever its content does."""

    key: str
    size_bytes: int
    etag: str
    modified: datetime


class Store:
    """A library's objects by their keys, which come behind the address's prefix.  Many tasks may use it at once."""

    def __init__(self, where: str, opened: ObjectStore):
        """`where` is what messages call it."""
        self._where = where
        self._obstore = _obstore()
        self._store = opened

    @classmethod
    def of(cls, address: Address, access: Access, *, patience: Patience = Patience()) -> Store:  # noqa: B008 - frozen
        """Raises NotInLibrary for a folder that isn't there."""
        return cls(str(address), _opened(address, access, patience))

    @classmethod
    def at_url(cls, base: str, *, patience: Patience = Patience()) -> Store:  # noqa: B008 - frozen
        """Files of a web server, by their paths behind `base`; they can only be read."""
        opened = _obstore().store.HTTPStore.from_url(
            base, client_options=_client(patience, allow_http=base.startswith("http:")), retry_config=_retry(patience)
        )
        return cls(base, opened)

    def __str__(self) -> str:
        return self._where

    async def look(self, key: str) -> Seen | None:
        """What is under a key, or None."""
        with self._told(f"looking for {key}"):
            try:
                found = await self._obstore.head_async(self._store, key)
            except FileNotFoundError:
                found = None
        return _seen(found) if found is not None else None

    async def read(self, key: str, *, most_bytes: int) -> bytes | None:
        """A small object, or None if there is none.  Raises LibraryError for one that is larger."""
        with self._told(f"reading {key}"):
            try:
                got = await self._obstore.get_async(self._store, key)
            except FileNotFoundError:
                got = None
            if got is not None and got.meta["size"] > most_bytes:
                raise LibraryError(f"{key} in {self} has {got.meta['size']:,} bytes: {most_bytes:,} are the most")
            return bytes(await got.bytes_async()) if got is not None else None

    async def begin(self, key: str, count: int) -> tuple[Seen, bytes]:
        """An object's first bytes, at most so many, and what it is.  Raises NotInLibrary."""
        with self._told(f"reading the beginning of {key}"):
            got = await self._obstore.get_async(self._store, key, options={"range": (0, count)})
            content = bytes(await got.bytes_async())
        return _seen(got.meta), content

    async def pieces(self, key: str, start: int, end: int, *, etag: str) -> AsyncIterator[bytes]:
        """The bytes from start up to end, as they come, of the very object that was seen with this etag.

        There may be fewer: some stores give what they have.  Raises Replaced, Interrupted, LibraryError.
        """
        with self._told(f"fetching {key}", midway=True):
            got = await self._obstore.get_async(
                self._store, key, options={"range": (start, end), **({"if_match": etag} if etag else {})}
            )
            if (got.meta["e_tag"] or "") != etag:
                raise self._replaced(key)
            if got.range[0] != start:
                raise LibraryError(
                    f"{self} gave bytes of {key} from {got.range[0]} on, asked for were those from {start}"
                )
            async for piece in got.stream(min_chunk_size=PIECE_BYTES):
                yield piece

    async def create(self, key: str, content: bytes) -> bool:
        """Puts a small object where there is none; False if there is one already, which stays."""
        with self._told(f"writing {key}"):
            try:
                await self._obstore.put_async(self._store, key, content, mode="create")
                is_new = True
            except self._obstore.exceptions.AlreadyExistsError:
                is_new = False
        return is_new

    async def replace(self, key: str, content: bytes) -> None:
        """Puts a small object, whatever was there."""
        with self._told(f"writing {key}"):
            await self._obstore.put_async(self._store, key, content, use_multipart=False)

    async def upload(self, key: str, pieces: AsyncIterator[bytes], size_bytes: int) -> None:
        """Puts a large object, in equal parts; what `pieces` raises ends it, and nothing is there then."""
        with self._told(f"writing {key}"):
            await self._obstore.put_async(
                self._store,
                key,
                pieces,
                use_multipart=True,
                chunk_size=part_bytes(size_bytes),
                max_concurrency=_PUTS_AT_ONCE,
            )

    async def under(self, prefix: str) -> list[Seen]:
        """All objects whose keys begin with a prefix that ends with a slash."""
        found: list[Seen] = []
        with self._told(f"listing {prefix}"):
            try:
                async for batch in self._obstore.list(self._store, prefix.rstrip("/")):
                    found.extend(_seen(meta) for meta in batch)
            except FileNotFoundError:
                found = []
        return found

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            with self._told(f"deleting {key}"):
                try:
                    await self._obstore.delete_async(self._store, key)
                except FileNotFoundError:
                    continue

    @contextmanager
    def _told(self, doing: str, *, midway: bool = False) -> Iterator[None]:
        errors = self._obstore.exceptions
        try:
            yield
        except FileNotFoundError:
            raise NotInLibrary(f"{self} has no {doing.split()[-1]}") from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as e:
            code = _CODE.search(str(e))
            raise LibraryForbidden(
                f"{self} refuses these credentials, {doing}{f' ({code[1]})' if code else ''}: check the access key, its"
                " secret, and what the key may do with this bucket"
            ) from None
        except errors.PreconditionError:
            raise self._replaced(doing) from None
        except errors.BaseError as e:
            said = str(e)
            status = _STATUS.search(said)
            # So it tells what it learns when it goes on with an answer that broke off.
            if status is not None and status[1] == "412":
                raise self._replaced(doing) from None
            if status is not None and status[1] == "404":
                raise NotInLibrary(f"{self} has no {doing.split()[-1]} any more: run it again") from None
            raise _failed(f"{self}, {doing}", said, midway=midway) from None

    def _replaced(self, doing: str) -> Replaced:
        return Replaced(f"{doing.split()[-1]} in {self} was replaced while it was fetched: run it again")


def part_bytes(size_bytes: int) -> int:
    """How long the parts of an upload are, all but the last: a whole number of MiB."""
    least = -(-size_bytes // _MOST_PARTS)
    return max(PART_BYTES, -(-least // 2**20) * 2**20)


def _failed(where: str, said: str, *, midway: bool) -> LibraryError:
    status, code = _STATUS.search(said), _CODE.search(said)
    if status is not None:
        why = f"it answered {status[1]}{f' {code[1]}' if code else ''}"
        if status[1] in ("401", "403"):
            return LibraryForbidden(f"{where}: {why}: check the access key, its secret, and what the key may do")
        if status[1].startswith("5") or status[1] == "429":
            return LibraryUnreachable(f"{where}: {why}, also when asked again: try later")
        return LibraryError(f"{where}: {why}")
    why = next((words for pattern, words in _CAUSES if pattern.search(said)), "")
    if why == "there is no room left":
        return LibraryError(f"{where}: {why}")
    kind = Interrupted if midway else LibraryUnreachable
    return kind(f"{where}: {why or 'it could not be asked'}: check the address and the network, then run it again")


def _seen(meta: Any) -> Seen:
    return Seen(meta["path"], meta["size"], meta["e_tag"] or "", meta["last_modified"])


def _opened(address: Address, access: Access, patience: Patience) -> ObjectStore:
    stores = _obstore().store
    if address.scheme == "file":
        if not Path(address.root).is_dir():
            raise NotInLibrary(f"there is no folder {address.root}: make it, or `foretold models push` something there")
        folder: ObjectStore = stores.LocalStore(address.root)
        return folder
    config: dict[str, Any] = {
        "region": access.region,
        "virtual_hosted_style_request": False,
        "disable_tagging": True,
        "skip_signature": access.kind == "none",
    }
    if access.endpoint:
        # Both, since the variable AWS_ENDPOINT_URL_S3 would win over the first.
        config |= {"endpoint": access.endpoint, "aws_endpoint_url_s3": access.endpoint}
    store: ObjectStore = stores.S3Store(
        address.root,
        prefix=address.prefix or None,
        config=config,
        client_options=_client(patience, allow_http=access.endpoint.startswith("http:")),
        retry_config=_retry(patience),
        # Not as plain settings: a session token of the environment, which belongs to other keys, would be added.
        credential_provider=(lambda: _credential(access)) if access.kind == "keys" else None,
    )
    return store


def _credential(access: Access) -> dict[str, Any]:
    return {
        "access_key_id": access.access_key,
        "secret_access_key": access.secret_key,
        "token": access.session_token or None,
        "expires_at": None,
    }


def _client(patience: Patience, *, allow_http: bool) -> dict[str, Any]:
    return {
        "allow_http": allow_http,
        "connect_timeout": timedelta(seconds=patience.connect_s),
        "read_timeout": timedelta(seconds=patience.read_s),
        # A part over a slow line takes as long as it takes: what counts is that something comes.
        "timeout": timedelta(days=7),
        "user_agent": f"foretold/{__version__}",
    }


def _retry(patience: Patience) -> dict[str, Any]:
    return {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=patience.retry_s),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    }


def _obstore() -> Any:
    try:
        import obstore
        import obstore.store
    except ImportError:
        raise LibraryError(f"libraries of models need a library of their own: {INSTALL}") from None
    return obstore
