"""What a host process is told at its start, as one line on its stdin: nothing secret in arguments or environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import orjson


@dataclass(frozen=True, slots=True)
class Launch:
    """`parent_pid` is the process whose death ends this one; `threads` None leaves the count to the machine.

    `residents` are the models that share its cores, this one too.  `embeds`: it makes vectors, and writes no text.
    """

    alias: str
    weights: str
    socket: str
    api_key: str = field(repr=False)
    parent_pid: int
    memory_bytes: int
    context: int
    parallel: int
    cache_type_k: str
    cache_type_v: str
    chat_template: str | None = None
    threads: int | None = None
    residents: int = 1
    embeds: bool = False

    def line(self) -> bytes:
        return orjson.dumps(asdict(self)) + b"\n"


def launch_of(line: bytes) -> Launch:
    return Launch(**orjson.loads(line))
