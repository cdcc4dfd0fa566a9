from __future__ import annotations

import datetime

import pytest

from foretold.deploy.cost import estimate, prices
from tests.edges import edge, script


def test_every_price_has_its_day_and_its_source():
    rows = [(f"{service}.{name}", row) for service, parts in prices().items() for name, row in parts.items()]

    assert len(rows) > 10
    assert [name for name, row in rows if not isinstance(row.get("read"), datetime.date)] == []
    assert [name for name, row in rows if not str(row.get("source", "")).startswith("developers.cloudflare.com/")] == []


def test_all_hits_cost_a_request_a_read_and_three_milliseconds_each():
    quiet = edge(with_script=script(logs=False))

    by_share = {row.hits_percent: row.dollars for row in estimate(quiet).rows}

    # No hits: 0.30 a request + 0.02 * 6 ms + 0.50 a read + 5.00 a write.
    assert by_share[0] == pytest.approx(5.92)
    assert by_share[50] == pytest.approx((5.92 + 0.86) / 2)
    assert by_share[95] == pytest.approx(0.05 * 5.92 + 0.95 * 0.86)


def test_logs_cost_by_the_request():
    with_logs, without = estimate(edge()), estimate(edge(with_script=script(logs=False)))

    for one, other in zip(with_logs.rows, without.rows, strict=True):
        assert one.dollars - other.dollars == pytest.approx(0.60)
