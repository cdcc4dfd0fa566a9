"""The settings of the models that a node runs itself."""

from __future__ import annotations

from dataclasses import dataclass

from foretold.config import values as v
from foretold.config.tables import setting


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    name: str
    source: str = setting(
        v.model_source,
        "bundled",
        "where its weights come from: with this program, or from a library at s3://, r2:// or file://",
        shown='"bundled"',
    )
    model: str = setting(v.maybe_text, "", "what the library calls it; by default the same", shown='"smollm2-135m"')
    revision: str = setting(
        v.revision, "", "the digest of its manifest in the library: no other is run", shown=f'"{"0" * 64}"'
    )
    context: int | None = setting(
        v.number(256, 10_000_000),
        None,
        "tokens of prompt and answer together; by default what its manifest says, for the bundled one 2,048",
        shown="2048",
    )
    kv: str = setting(
        v.choice("f32", "f16", "q8_0", "q4_0"),
        "",
        "how the context is kept in memory: q8_0 takes about half of f16, for answers a little different; by default as"
        " its manifest says, for the bundled one f16",
        shown='"f16"',
    )
    max_tokens: int | None = setting(
        v.number(1, 10_000_000),
        None,
        "the longest answer, where the request sets no limit; by default what its manifest says, for the bundled one 512",
        shown="512",
    )
    parallel: int | None = setting(
        v.number(1, 64),
        None,
        "answers made at once; by default what its manifest says, for the bundled one 2",
        shown="2",
    )
    reproducible: bool = setting(
        v.flag,
        False,
        "one answer at a time, so that none depends on what else is asked: slower where several ask at once",
        shown="false",
    )
    threads: int = setting(
        v.number(0, 1024),
        0,
        "threads it computes with; 0 is one less than the cores, shared with the models that are loaded, at least one",
        shown="0",
    )
    pin: bool = setting(
        v.flag, False, "loads it when the node starts, and never unloads it to make room for others", shown="false"
    )
    keep_alive: float = setting(
        v.keep_alive,
        -1.0,
        "how long it stays loaded when nobody asks it: 0 is not at all, -1 as long as there is room",
        shown="-1",
    )
    queue: int = setting(
        v.number(1, 100_000), 64, "how many may wait for it; more are told 429 and to come later", shown="64"
    )


@dataclass(frozen=True, kw_only=True)
class Pool:
    memory: int | None = setting(
        v.size(least_bytes=2**20),
        None,
        "what all loaded models may take together; by default three quarters of this machine's memory",
        shown='"4 GiB"',
    )
