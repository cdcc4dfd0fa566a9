"""What whoever runs the node may do with its models: look at them, load one, unload one."""

from __future__ import annotations

from typing import Any, Protocol

from foretold.errors import NotFound
from foretold.models.pool import Pool


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


class PoolManaging:
    """Managing, where the pool is in this process."""

    def __init__(self, pool: Pool):
        self._pool = pool

    async def list(self) -> dict[str, Any]:
        models = self._pool.told()
        return {"memory_bytes": self._pool.budget_bytes, "taken_bytes": self._pool.taken_bytes, "models": models}

    async def load(self, name: str, keep_alive_s: float | None) -> dict[str, Any]:
        self._known(name)
        await self._pool.load(name, keep_alive_s)
        return self._known(name)

    async def unload(self, name: str) -> dict[str, Any]:
        self._known(name)
        await self._pool.unload(name)
        return self._known(name)

    def _known(self, name: str) -> dict[str, Any]:
        told = self._pool.told()
        for one in told:
            if one["name"] == name:
                return one
        known = ", ".join(one["name"] for one in told) or "none"
        raise NotFound(
            f"this node runs no model {name[:100]!r}: known are {known}", param="model", code="model_not_found"
        )
