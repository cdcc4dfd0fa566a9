"""What a host process is told at its start, as one line on its stdin: nothing secret in arguments or environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A program or a callable of whoever runs the node, as the settings name it (engines `command` and `python`).

    `port` is the one that a program listens on which takes no unix socket; 0 for none.  `environment` may hold secrets.
    """

    command: tuple[str, ...] = ()
    ready: str = ""
    load_s: float = 0.0
    callable: str = ""
    path: str = ""
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    asks_for: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """`parent_pid` is the process whose death ends this one; `threads` None leaves the count to the machine.

    `residents` are the models that share its cores, this one too.  `embeds`: it makes vectors, and writes no text.
    Idle for `sleep_s` it gives back the memory of its context; 0 is never.
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
    own: Own | None = None
    sleep_s: int = 0

    def line(self) -> bytes:
        return orjson.dumps(asdict(self)) + b"\n"


def launch_of(line: bytes) -> Launch:
    told = orjson.loads(line)
    own = told.pop("own", None)
    if own is not None:
        own["command"] = tuple(own["command"])
        own["environment"] = tuple((name, value) for name, value in own["environment"])
    return Launch(**told, own=Own(**own) if own is not None else None)
