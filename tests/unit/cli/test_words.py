from __future__ import annotations

import io
import re

from foretold.cli.words import Progress


def test_what_was_here_before_is_no_speed():
    out = io.StringIO()
    progress = Progress(out)

    progress.step("fetching")
    progress.progress(900_000_000, 1_000_000_000)
    progress.progress(1_000_000_000, 1_000_000_000)

    first, *_ = re.findall(r"([\d.]+) MB/s", out.getvalue())
    assert first == "0.0"


def test_the_share_never_goes_back_and_each_step_begins_anew():
    out = io.StringIO()
    progress = Progress(out)

    progress.step("one")
    progress.progress(50, 100)
    progress.progress(20, 100)
    progress.progress(100, 100)
    progress.step("two")
    progress.progress(10, 100)

    assert [int(share) for share in re.findall(r"(\d+)%", out.getvalue())] == [50, 100, 10]
