"""Is a file on disk the one its digest names?

The only integrity there is: an engine loads a damaged file without a word and answers nonsense.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from foretold.models.manifest import File


def why_not_whole(path: Path, file: File) -> str | None:
    """None for the whole and right file, else what is wrong with it.  Reads all of it: about 1 s per GB."""
    try:
        with path.open("rb") as blob:
            size_bytes = blob.seek(0, 2)
            if size_bytes != file.size_bytes:
                return f"it has {size_bytes:,} bytes instead of {file.size_bytes:,}"
            blob.seek(0)
            found = hashlib.file_digest(blob, "sha256").hexdigest()
    except FileNotFoundError:
        return "it is not there"
    except OSError as e:
        return f"it cannot be read: {e.strerror}"
    return None if found == file.sha256 else f"its SHA-256 is {found} instead of {file.sha256}"
