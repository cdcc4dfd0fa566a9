"""The settings of the models that a node runs itself."""

from __future__ import annotations

from dataclasses import dataclass

from foretold.config import values as v
from foretold.config.tables import setting


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    name: str
    engine: str = setting(
        v.choice("gguf", "command", "python"),
        "gguf",
        "what runs it: the engine of this node, or a program or a Python function of yours",
        shown='"gguf"',
    )
    source: str = setting(
        v.model_source,
        "bundled",
        "gguf: where its weights come from: with this program, or from a library at s3://, r2:// or file://",
        shown='"bundled"',
    )
    model: str = setting(
        v.maybe_text, "", "what the library, or the program, calls it; by default the same", shown='"smollm2-135m"'
    )
    revision: str = setting(
        v.text,
        "",
        "the digest of its manifest in the library: no other is run; of a model of yours what you call it, which is part "
        "of every key: change it when the model changes",
        shown=f'"{"0" * 64}"',
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
    sleep: float = setting(
        v.duration(),
        0.0,
        "gguf: idle for so long it gives back the memory of its context, and takes about a second to come back; 0 is never",
        shown='"0 s"',
    )
    queue: int = setting(
        v.number(1, 100_000), 64, "how many may wait for it; more are told 429 and to come later", shown="64"
    )
    command: tuple[str, ...] = setting(
        v.texts,
        (),
        "command: the program and its arguments; {port} or {socket} stands for where it is to listen",
        shown='["llama-server", "-m", "/srv/qwen.gguf", "--port", "{port}"]',
    )
    callable: str = setting(v.callable_name, "", "python: the function that answers", shown='"answers:reply"')
    path: str = setting(v.maybe_text, "", "python: the folder that its module lies in", shown='"/srv/answers"')
    environment: tuple[tuple[str, str | v.Secret], ...] = setting(
        v.environment,
        (),
        "command, python: variables that it gets; no others but PATH and the locale's",
        shown='{ CUDA_VISIBLE_DEVICES = "0" }',
    )
    memory: int | None = setting(
        v.size(least_bytes=2**20), None, "command, python: what it takes at most, as you predict it", shown='"6 GiB"'
    )
    capabilities: tuple[str, ...] = setting(
        v.capabilities, (), "command, python: chat, completion, tools; by default chat", shown='["chat", "completion"]'
    )
    languages: tuple[str, ...] = setting(v.texts, (), "command, python: those it knows", shown='["en", "vi"]')
    ready: str = setting(v.maybe_text, "", "command: the path that answers 200 once it serves", shown='"/health"')
    load_timeout: float = setting(
        v.duration(least_s=0.1, most_s=86_400), 120.0, "how long loading may take", shown='"120 s"'
    )
    silence: float = setting(
        v.duration(least_s=0.1, most_s=3600),
        60.0,
        "how long it may give no sign of life while it answers; then it is taken for hung, and started anew",
        shown='"60 s"',
    )

    @property
    def is_bundled(self) -> bool:
        return self.engine == "gguf" and self.source == "bundled"

    @property
    def is_of_a_library(self) -> bool:
        return self.engine == "gguf" and self.source != "bundled"


@dataclass(frozen=True, kw_only=True)
class Pool:
    memory: int | None = setting(
        v.size(least_bytes=2**20),
        None,
        "what all loaded models may take together; by default three quarters of this machine's memory",
        shown='"4 GiB"',
    )
