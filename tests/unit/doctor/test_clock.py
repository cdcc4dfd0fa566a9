from __future__ import annotations

import os
import time

from foretold.doctor.clock import clock
from foretold.doctor.upstreams import Visit
from tests.worlds import begun, text, verdict, world_of


def test_a_clock_that_agrees_with_all_is_well(tmp_path):
    begun(tmp_path)

    notes = list(clock(world_of(tmp_path), [Visit("a", ahead_s=0.4), Visit("b")]))

    assert verdict(notes) == "ok"
    assert "0.4 s ahead of the Date of a" in text(notes)


def test_a_clock_over_five_seconds_off_an_upstream_s_is_a_warning(tmp_path):
    notes = list(clock(world_of(tmp_path), [Visit("a", ahead_s=0.4), Visit("b", ahead_s=-7.2)]))

    assert verdict(notes) == "warning"
    assert "7.2 s behind the Date of b" in text(notes)
    assert "NTP" in text(notes)


def test_a_clock_behind_a_file_of_the_data_folder_is_a_warning(tmp_path):
    data = begun(tmp_path)
    os.utime(data.generations, (0, time.time() + 3600))

    notes = list(clock(world_of(tmp_path), []))

    assert verdict(notes) == "warning"
    assert str(data.generations) in text(notes)


def test_a_clock_behind_the_program_s_own_files_is_a_warning(tmp_path):
    assert verdict(list(clock(world_of(tmp_path, now_s=1_000_000_000.0), []))) == "warning"
