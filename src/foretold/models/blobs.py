"""Is a file on disk the one its digest names?

The only integrity there is: an engine loads a damaged file without a word and answers nonsense.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from foretold.models.manifest import File

_PIECE_BYTES = 4 * 2**20


def why_not_whole(path: Path, file: File, *, told: Callable[[int, int], None] | None = None) -> str | None:
    """None for the whole and right file, else what is wrong with it.  Reads all of it: about 1 s per GB.

    `told` hears how many bytes were read, and of how many.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as blob:
            size_bytes = blob.seek(0, 2)
            if size_bytes != file.size_bytes:
                return f"it has {size_bytes:,} bytes instead of {file.size_bytes:,}"
            blob.seek(0)
            while piece := blob.read(_PIECE_BYTES):
                digest.update(piece)
                if told is not None:
                    told(blob.tell(), size_bytes)
    except FileNotFoundError:
        return "it is not there"
    except OSError as e:
        return f"it cannot be read: {e.strerror}"
    found = digest.hexdigest()
    return None if found == file.sha256 else f"its SHA-256 is {found} instead of {file.sha256}"
