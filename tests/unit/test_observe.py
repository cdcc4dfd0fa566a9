from __future__ import annotations

import io

import pytest

from foretold.cli.words import Progress
from foretold.observe.counters import Counters
from foretold.observe.log import QueryLog, line_of, shown_ms
from foretold.outcome import Ended, How, Outcome


def test_every_outcome_is_counted_once_under_its_how_and_its_end():
    counters = Counters()
    for how in How:
        counters.receive()
        counters.account(Outcome(0, how=how, ended=Ended.WHOLE, took_ms=3, route="r"))

    assert counters.received == sum(c.count for c in counters.how.values()) == len(How)
    assert all(sum(c.buckets) == c.count == 1 for c in counters.how.values())
    assert counters.ended[Ended.WHOLE] == len(How)


def test_only_hits_save_time():
    counters = Counters()
    for how in How:
        counters.account(Outcome(0, how=how, origin_ms=1000))

    assert counters.saved_ms == 2000  # hit and stale


def test_a_line_says_how_what_and_how_long():
    hit = Outcome(0, how=How.HIT, model="m", took_ms=0.42, tier="memory", origin_ms=1840)
    miss = Outcome(0, how=How.MISS, model="m", took_ms=1840, stored=True)

    assert line_of(hit, "14:02:15") == "14:02:15  hit        m  0.4 ms  memory  saved 1.84 s"
    assert line_of(miss, "14:02:11") == "14:02:11  miss       m  1.84 s  stored"


@pytest.mark.parametrize("evil", ["a\nb", "\x1b[31mred", "x" * 1000, "\r\x00"])
def test_a_callers_word_can_neither_forge_a_line_nor_colour_a_terminal(evil):
    out = io.StringIO()
    QueryLog(out)(Outcome(0, how=How.MISS, model=evil, detail=evil))

    assert out.getvalue().count("\n") == 1
    assert out.getvalue().endswith("\n")
    assert "\x1b" not in out.getvalue()
    assert len(out.getvalue()) < 300


@pytest.mark.parametrize(("ms", "text"), [(0.04, "0.0 ms"), (9.94, "9.9 ms"), (42.4, "42 ms"), (1840, "1.84 s")])
def test_times_are_told_as_people_say_them(ms, text):
    assert shown_ms(ms) == text


def test_progress_off_a_terminal_is_plain_lines_and_never_goes_back():
    out = io.StringIO()
    progress = Progress(out)
    progress.step("Fetching")
    for done in (10, 50, 30, 100):
        progress.progress(done, 100)

    shares = [int(line.split("%")[0]) for line in out.getvalue().splitlines() if "%" in line]
    assert "\r" not in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert shares == sorted(shares)
    assert shares[-1] == 100
