"""What whoever runs the node may do with its models: look at them, load, unload, promote one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from foretold.errors import NotFound, Refused
from foretold.models.pool import Pool
from foretold.models.promoting import Promoting


class Managing(Protocol):
    """Those of the whole node, whichever process has them."""

    async def list(self) -> dict[str, Any]:
        """`memory_bytes` is what they may take together, `taken_bytes` what they are predicted to, `models` each one."""
        ...

    async def load(self, name: str, keep_alive_s: float | None) -> dict[str, Any]:
        """The model as it is once it is loaded.  Raises NotFound, ModelError or OriginError."""
        ...

    async def unload(self, name: str) -> dict[str, Any]:
        """The model as it then is: still `unloading` where an answer is in progress.  Raises NotFound."""
        ...

    async def promote(self, name: str, revision: str) -> dict[str, Any]:
        """The model in the revision that it has then, and whether it is `promoted`, or had it before.

        Raises NotFound, Refused, ModelError or LibraryError.
        """
        ...


def counted(told: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The counts of models of which `told` tells; who asks and waits is counted with all revisions that are here."""
    rows = []
    for one in told:
        row = {"name": one["name"], "state": one["state"], "memory_bytes": one["memory_bytes"]}
        for name in ("answering", "waiting"):
            row[name] = one[name] + sum(other[name] for other in one["others"])
        rows.append(row | one["counts"])
    return rows


class PoolManaging:
    """Managing, where the pool is in this process."""

    def __init__(self, pool: Pool, promoting: Promoting | None = None):
        self._pool = pool
        self._promoting = promoting

    async def list(self) -> dict[str, Any]:
        models = self._told()
        return {"memory_bytes": self._pool.budget_bytes, "taken_bytes": self._pool.taken_bytes, "models": models}

    async def load(self, name: str, keep_alive_s: float | None) -> dict[str, Any]:
        self._known(name)
        await self._pool.load(self._pool.asked(name), keep_alive_s)
        return self._known(name)

    async def unload(self, name: str) -> dict[str, Any]:
        self._known(name)
        await self._pool.unload(name)
        return self._known(name)

    async def promote(self, name: str, revision: str) -> dict[str, Any]:
        self._known(name)
        if self._promoting is None:
            raise Refused("this node promotes no models", code="not_promotable", status=409)
        promoted = await self._promoting.promote(name, revision)
        return self._known(name) | {"promoted": promoted}

    def _told(self) -> Sequence[dict[str, Any]]:
        promoting = self._promoting
        return [
            one | {"promotion": promoting.told(one["name"]) if promoting is not None else None}
            for one in self._pool.told()
        ]

    def _known(self, name: str) -> dict[str, Any]:
        told = self._told()
        for one in told:
            if one["name"] == name:
                return one
        known = ", ".join(one["name"] for one in told) or "none"
        raise NotFound(
            f"this node runs no model {name[:100]!r}: known are {known}", param="model", code="model_not_found"
        )
