from __future__ import annotations

from foretold.config import load
from foretold.workers.shares import part_of, without_disk

SETTINGS = """
[server]
connections = 1001
bodies_together = "100 MiB"
[upstreams.one]
url = "http://127.0.0.1:9/v1"
connections = 5
"""


def test_what_all_workers_may_together_is_at_least_what_the_node_may():
    config = part_of(load(SETTINGS), 2)

    assert config.server.connections == 501
    assert config.server.bodies_together == 50 * 2**20
    assert config.upstreams[0].connections == 3


def test_memory_is_parted_and_the_disk_is_one_for_all():
    tiers = part_of(load(SETTINGS), 4).tiers

    assert [(tier.store, tier.limit) for tier in tiers] == [("memory", 64 * 2**20), ("disk", 2 * 2**30)]


def test_a_body_that_is_allowed_has_room_in_every_share():
    config = part_of(load('[server]\nbody_limit = "20 MiB"\nbodies_together = "32 MiB"\n'), 8)

    assert config.server.bodies_together == config.server.body_limit


def test_one_worker_has_all():
    config = load(SETTINGS)

    assert part_of(config, 1) is config


def test_without_the_disk_memory_is_left():
    assert [tier.store for tier in without_disk(part_of(load(SETTINGS), 2)).tiers] == ["memory"]
