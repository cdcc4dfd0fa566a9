"""What the tests of libraries have in common: stores with their keys, and a folder of models to fill."""

from __future__ import annotations

from pathlib import Path

from foretold.models.library.access import Access, Patience
from foretold.models.library.address import address_of
from foretold.models.library.bring import Brought, bring
from foretold.models.library.describing import Said, files_of
from foretold.models.library.objects import Store
from foretold.models.library.push import Pushed, push
from foretold.models.library.shelf import Shelf, Using
from foretold.models.library.trust import Trust
from tests.library.weed import ACCESS_KEY, SECRET_KEY

MB = 10**6
# So short that a server which gives nothing is known as such while a test waits.
IMPATIENT = Patience(connect_s=5, read_s=1, retries=1, retry_s=5)
PATIENT = Patience(retries=2, retry_s=20)


class Told:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.seen: list[tuple[int, int]] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        self.seen.append((done_bytes, total_bytes))


def keys(endpoint: str, *, secret: str = SECRET_KEY) -> Access:
    return Access("keys", endpoint, "us-east-1", ACCESS_KEY, secret)


def store(address: str, endpoint: str, *, patience: Patience = PATIENT, secret: str = SECRET_KEY) -> Store:
    return Store.of(address_of(address), keys(endpoint, secret=secret), patience=patience)


async def pushed(there: Store, path: Path, *, name: str = "tiny", **other: object) -> Pushed:
    files = {file.name: file for file in files_of(path)}
    return await push(there, files, Said(name=name, **other), signing_key=None, tell=Told())  # type: ignore[arg-type]


def shelf(folder: Path, *, limit_bytes: int = 10**9) -> Shelf:
    return Shelf(folder, limit_bytes=limit_bytes)


async def pulled(there: Store, folder: Path, revision: str, *, name: str = "tiny", tell: Told | None = None) -> Brought:
    """Brought by its digest; what was in use while it came is free again."""
    using = Using()
    try:
        return await bring(shelf(folder), there, name, trust=Trust(revision), using=using, tell=tell or Told())
    finally:
        using.close()
