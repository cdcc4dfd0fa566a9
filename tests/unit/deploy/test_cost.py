from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from foretold.deploy.cost import estimate, prices
from tests.edges import edge, script


def test_every_price_has_its_day_and_its_source():
    rows = [(f"{service}.{name}", row) for service, parts in prices().items() for name, row in parts.items()]

    assert len(rows) > 10
    assert [name for name, row in rows if not isinstance(row.get("read"), datetime.date)] == []
    assert [name for name, row in rows if not str(row.get("source", "")).startswith("developers.cloudflare.com/")] == []


def test_all_hits_cost_a_request_a_read_and_three_milliseconds_each():
    quiet = edge(with_script=script(logs=False, analytics=None, log_bucket=None))

    by_share = {row.hits_percent: row.dollars for row in estimate(quiet).rows}

    # No hits: 0.30 a request + 0.02 * 6 ms + 0.50 a read + 5.00 a write.
    assert by_share[0] == pytest.approx(5.92)
    assert by_share[50] == pytest.approx((5.92 + 0.86) / 2)
    assert by_share[95] == pytest.approx(0.05 * 5.92 + 0.95 * 0.86)


@pytest.mark.parametrize(
    ("without", "dollars"), [({"logs": False}, 0.60), ({"analytics": None}, 0.25), ({"log_bucket": None}, 4.50 / 25)]
)
def test_what_is_written_beside_the_answer_costs_by_the_request(without, dollars):
    everything, less = estimate(edge()), estimate(edge(with_script=script(**without)))

    for one, other in zip(everything.rows, less.rows, strict=True):
        assert one.dollars - other.dollars == pytest.approx(dollars)


def test_the_cost_is_told_for_the_shares_of_hits_that_are_asked_for():
    assert [row.hits_percent for row in estimate(edge(), (37, 100)).rows] == [37, 100]


def test_the_page_on_limits_has_the_prices_of_the_table():
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "edge-limits.md").read_text()
    bare = edge(with_script=script(logs=False, analytics=None, log_bucket=None))

    for share, what in ((100, "hit from KV"), (0, "miss")):
        row = re.search(rf"^\| {what} \|.* ([0-9.]+) \|$", page, re.M)
        assert row is not None
        assert float(row[1]) == pytest.approx(estimate(bare, (share,)).rows[0].dollars)


def test_what_stands_behind_workers_cache_is_a_second_request():
    bare, cached = estimate(edge()), estimate(edge(with_script=script(cached_entrypoints=("Records",))))

    for one, other in zip(cached.rows, bare.rows, strict=True):
        assert one.dollars - other.dollars == pytest.approx(0.30)
