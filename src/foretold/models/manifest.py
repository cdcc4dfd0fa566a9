"""What a local model is: its files by digest, how they are run, what it can do."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from foretold.contract.canonical import canonical

# Bytes of one number that is kept of a token, by the type it is kept in.
KV_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}  # fmt: skip


class File(NamedTuple):
    """One file of a model; `name` is what its engine calls it, the digest is what we go by."""

    name: str
    sha256: str
    size_bytes: int

    @property
    def blob(self) -> str:
        """Its name in a folder of blobs."""
        return f"sha256-{self.sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A model's promise.

    `context` counts the tokens of one slot, prompt and answer together; `parallel` is how many slots there are, that
    is answers made at once.  `max_tokens` limits an answer whose request sets no limit, and counts as given in the
    request (rule R3).  `fixed_bytes` and `token_bytes` predict private memory: at all, and for a token of context, of
    each slot where the model writes text.  `trained_context` is how many tokens the model was made for; 0 where it
    doesn't say.  `given_revision` is what the settings call a model that has no files here, because an engine of theirs
    runs it.
    """

    name: str
    files: tuple[File, ...]
    licence: str
    capabilities: frozenset[str]
    languages: tuple[str, ...]
    fixed_bytes: int
    token_bytes: int
    context: int
    parallel: int
    max_tokens: int
    engine: str = "gguf"
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    chat_template: str | None = None
    trained_context: int = 0
    given_revision: str = ""

    @property
    def size_bytes(self) -> int:
        """What its files take on disk."""
        return sum(file.size_bytes for file in self.files)

    @property
    def embeds(self) -> bool:
        """Whether it makes vectors of texts, and nothing else."""
        return self.capabilities == {"embedding"}

    @property
    def memory_bytes(self) -> int:
        """The private memory of a process that runs it; the mapped weights come on top, once a machine."""
        slots = 1 if self.embeds else self.parallel  # vectors are made of one text at a time
        return self.fixed_bytes + self.token_bytes * self.context * slots

    def with_settings(self, *, name: str, context: int, max_tokens: int, parallel: int, kv: str = "") -> Manifest:
        """The same model under another name and other limits; `kv` is the type that its context is kept in."""
        changed = replace(self, name=name, context=context, max_tokens=max_tokens, parallel=parallel)
        return changed if not kv or kv == self.cache_type_k == self.cache_type_v else changed._kept_in(kv)

    def _kept_in(self, kv: str) -> Manifest:
        """Where keys and values were kept in two types, the memory is predicted as if both had been the smaller one.

        What takes memory where vectors are made is no context that is kept.
        """
        if self.embeds:
            return replace(self, cache_type_k=kv, cache_type_v=kv)
        before = min(KV_BYTES[self.cache_type_k], KV_BYTES[self.cache_type_v])
        token_bytes = math.ceil(self.token_bytes * KV_BYTES[kv] / before)
        return replace(self, cache_type_k=kv, cache_type_v=kv, token_bytes=token_bytes)


def revision(manifest: Manifest) -> str:
    """Which model this is, for keys: equal as long as its answers may stand for each other (rule K9).

    Its own limit of an answer is in it, as a request's would be in the key.  The engine's build is not, nor what only
    changes how many are answered at once.
    """
    promise: dict[str, Any] = {
        "files": [list(file) for file in manifest.files],
        "template": manifest.chat_template,
        "engine": manifest.engine,
        "context": manifest.context,
        "max_tokens": manifest.max_tokens,
        "kv": [manifest.cache_type_k, manifest.cache_type_v],
    }
    if manifest.given_revision:
        promise["given"] = manifest.given_revision
    return hashlib.sha256(canonical(promise)).hexdigest()


# A slot of 2,048 takes 48 MB and is read by one thread in about 15 s.
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
    fixed_bytes=45_000_000,
    token_bytes=23_400,
    context=2048,
    parallel=2,
    max_tokens=512,
    trained_context=8192,
)
