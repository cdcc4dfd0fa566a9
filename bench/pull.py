"""A pull from an S3 server on loopback, beside the same bytes by obstore alone: eight ranges at once, written and no more.

python bench/pull.py [--rounds N]

Both by turns in one run.  A pull also hashes the whole file, makes each part safe on disk, and asks for manifest and
header first; what it comes to is how much of obstore's speed is left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import obstore
import obstore.store
from tests.library.weed import ACCESS_KEY, SECRET_KEY, weed
from tests.library.worlds import Told, pulled, store

from foretold.datafolder import models_folder
from foretold.models import bundled
from foretold.models.library.describing import Said
from foretold.models.library.layout import blob_key
from foretold.models.library.push import push
from foretold.models.manifest import SMOLLM2

GOAL = 0.7
RANGES = 8
PART_BYTES = 8 * 2**20
LIBRARY = "s3://models/bench"


def alone(endpoint: str, key: str, size_bytes: int, into: Path) -> float:
    """Seconds for all bytes of an object, by threads that write what they get."""
    there = obstore.store.S3Store(
        "models",
        prefix="bench",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        endpoint=endpoint,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    began_s = time.monotonic()
    file = os.open(into, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.posix_fallocate(file, 0, size_bytes)

    def fetch(start: int) -> None:
        end = min(start + PART_BYTES, size_bytes)
        os.pwrite(file, obstore.get_range(there, key, start=start, end=end), start)

    with ThreadPoolExecutor(RANGES) as pool:
        list(pool.map(fetch, range(0, size_bytes, PART_BYTES)))
    os.close(file)
    return time.monotonic() - began_s


def pull(endpoint: str, revision: str, folder: Path) -> float:
    began_s = time.monotonic()
    asyncio.run(pulled(store(LIBRARY, endpoint), folder, revision, name="smollm2"))
    return time.monotonic() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    weights = bundled.ensure(SMOLLM2, models_folder(), tell=Told())
    size_bytes = weights.stat().st_size
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "weed").mkdir()
        with weed(folder / "weed") as server:
            files = {SMOLLM2.files[0].name: weights}
            there = store(LIBRARY, server.endpoint)
            told = asyncio.run(push(there, files, Said(name="smollm2"), signing_key=None, tell=Told()))
            key = blob_key(told.manifest.files[0].blob)
            bare, ours = [], []
            for _ in range(rounds + 1):
                bare.append(alone(server.endpoint, key, size_bytes, folder / "bare"))
                ours.append(pull(server.endpoint, told.revision, folder / "models"))
                shutil.rmtree(folder / "models")
    # The first round warms the server.
    bare_s, ours_s = statistics.median(bare[1:]), statistics.median(ours[1:])
    ratio = statistics.median(b / o for b, o in zip(bare[1:], ours[1:], strict=True))
    print(f"obstore alone, {RANGES} ranges   {bare_s:.2f} s   {size_bytes / bare_s / 1e6:,.0f} MB/s")
    print(f"pull, whole             {ours_s:.2f} s   {size_bytes / ours_s / 1e6:,.0f} MB/s")
    print(f"of its speed            {ratio:.2f}     goal {GOAL}{'' if ratio >= GOAL else ', missed'}")


if __name__ == "__main__":
    main()
