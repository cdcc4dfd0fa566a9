"""A worker's share of what the settings allow the node as a whole."""

from __future__ import annotations

import dataclasses

from foretold.assemble import DEFAULT_TIERS
from foretold.config.settings import Config


def part_of(config: Config, workers: int) -> Config:
    """The settings of one of so many workers: each has its part of memory and connections, rounded up."""
    if workers == 1:
        return config
    server = dataclasses.replace(
        config.server,
        connections=_part(config.server.connections, workers),
        bodies_together=max(config.server.body_limit, _part(config.server.bodies_together, workers)),
    )
    upstreams = tuple(
        dataclasses.replace(upstream, connections=_part(upstream.connections, workers)) for upstream in config.upstreams
    )
    tiers = tuple(
        dataclasses.replace(tier, limit=_part(tier.limit or 0, workers)) if tier.store == "memory" else tier
        for tier in config.tiers or DEFAULT_TIERS
    )
    return dataclasses.replace(config, server=server, upstreams=upstreams, tiers=tiers)


def without_disk(config: Config) -> Config:
    """The same but for the disk tier, for a worker that died of it."""
    return dataclasses.replace(config, tiers=tuple(tier for tier in config.tiers if tier.store != "disk"))


def _part(whole: int, workers: int) -> int:
    return -(-whole // workers)
