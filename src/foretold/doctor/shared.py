"""The KV that nodes and edges share: can it be read, and is what lies there sealed with this node's secret?

Nothing is written there, so whether the token may write is not known.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from foretold.assemble import api_of, kv_of
from foretold.contract.generations import EVERYTHING, generation_name
from foretold.contract.record import open_sealed
from foretold.doctor.finding import Notes, fault, ok, skipped, warning
from foretold.doctor.private import sealing_secret
from foretold.doctor.world import World
from foretold.errors import RecordCorrupt, StoreError
from foretold.stores.cloudflare.api import KvApi

# Namespaces are hex, so records come before whatever else is under it.
_RECORDS = "foretold/1/"
_OTHER = ("foretold/1/generation/", "foretold/1/catalogue")


class Looked(NamedTuple):
    """`record` is one that lies there; None where there is none, or where it went meanwhile."""

    took_s: float
    has_generations: bool
    record: bytes | None


def shared_store(world: World) -> Notes:
    kv = kv_of(world.config) if world.config is not None else None
    if world.config is None:
        yield skipped("the settings are not valid")
    elif kv is None:
        yield skipped("no tier cloudflare_kv")
    else:
        try:
            looked = asyncio.run(_look(api_of(kv, world.config)))
        except StoreError as e:
            yield fault(
                f"KV namespace {kv.namespace_id} can't be read: {e}",
                "compare account_id, namespace_id and token of this tier with `foretold deploy cloudflare status`",
            )
            return
        told = f"KV namespace {kv.namespace_id} was read in {looked.took_s * 1000:.0f} ms"
        yield ok(told if looked.has_generations else f"{told}, and nobody has purged or served there yet")
        if looked.took_s > kv.deadline:
            yield warning(
                f"a look-up may take {kv.deadline:g} s, and took {looked.took_s:.1f} s: slower ones are misses",
                "give this tier a longer deadline, or run the node nearer to the network",
            )
        yield from _of_this_deployment(looked.record, world)


def _of_this_deployment(record: bytes | None, world: World) -> Notes:
    secret = sealing_secret(world)
    if record is None or secret is None:
        return
    try:
        open_sealed(record, secret)
    except RecordCorrupt:
        yield fault(
            "a record there is not sealed with this node's secret: nothing is shared with who wrote it",
            f"give nodes and edges one secret: that of the edge is set at its deployment, this node's is {world.data / 'secret'}",
        )
    else:
        yield ok("what lies there is sealed with this node's secret")


async def _look(api: KvApi) -> Looked:
    """Raises StoreError."""
    try:
        everything = generation_name(EVERYTHING)
        # The first call also opens the connection, which a node does once.
        found = await api.texts([everything])
        began_s = time.monotonic()
        names = [n for n in await api.first_names(_RECORDS) if not n.startswith(_OTHER)]
        took_s = time.monotonic() - began_s
        return Looked(took_s, everything in found, await api.get(names[0]) if names else None)
    finally:
        await api.close()
