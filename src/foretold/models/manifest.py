"""What a local model is: its files by digest, how they are run, what it can do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from foretold.contract.canonical import canonical


class File(NamedTuple):
    """One file of a model; `name` is what its engine calls it, the digest is what we go by."""

    name: str
    sha256: str
    size_bytes: int

    @property
    def blob(self) -> str:
        """Its name in a folder of blobs."""
        return f"sha256-{self.sha256}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A model's promise.

    `context_tokens` is what one slot holds, prompt and answer together; `slots` is how many answers are made at once.
    `max_tokens` limits an answer whose request sets no limit, and counts as given in the request (rule R3).
    `fixed_bytes` and `token_bytes` predict the private memory: what it takes at all, and for each token of context.
    """

    name: str
    files: tuple[File, ...]
    licence: str
    capabilities: frozenset[str]
    languages: tuple[str, ...]
    fixed_bytes: int
    token_bytes: int
    context_tokens: int
    slots: int = 1
    max_tokens: int = 512
    engine: str = "gguf"
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    chat_template: str | None = None

    @property
    def memory_bytes(self) -> int:
        """The private memory of a process that runs it; the mapped weights come on top, once a machine."""
        return self.fixed_bytes + self.token_bytes * self.context_tokens * self.slots


def revision(manifest: Manifest) -> str:
    """Which model this is, for keys: equal as long as its answers may stand for each other (rule K9).

    The engine's build is not in it, nor what only changes how many are answered at once.
    """
    promise = {
        "files": [list(file) for file in manifest.files],
        "template": manifest.chat_template,
        "engine": manifest.engine,
        "context": manifest.context_tokens,
        "kv": [manifest.cache_type_k, manifest.cache_type_v],
    }
    return hashlib.sha256(canonical(promise)).hexdigest()


# 4 slots of 2,048 tokens take as much memory (216 MB) as one of 8,192.  Four at once make nearly twice as many tokens
# per CPU-second as one, and a full prompt of 2,048 tokens is still read in about 15 s by one thread.
SMOLLM2 = Manifest(
    name="smollm2-135m",
    files=(
        File(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            98_362_432,
        ),
    ),
    licence="Apache-2.0",
    capabilities=frozenset({"chat", "completion"}),
    languages=("en",),
    fixed_bytes=36_000_000,
    token_bytes=22_000,
    context_tokens=2048,
    slots=4,
)
